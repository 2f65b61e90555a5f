import type { Status } from '../api/contract.js'
import { clockTime, day, duration } from './format.js'
import { Panel } from './panel.js'

type Incident = Status['incidents'][number]

/** Lists recent failures, newest first. */
export function Incidents({ status, now }: { status: Status | null; now: number }) {
  const incidents = status?.incidents ?? []
  return (
    <Panel id="incidents" title="Incidents" aside={<p class="aside">since the start</p>}>
      {incidents.length === 0 ? (
        <p class="nothing">Nothing has failed.</p>
      ) : (
        <ol class="incidents" tabIndex={0} aria-label="Incidents, the newest first">
          {incidents.map((incident) => (
            <li key={`${incident.what} ${incident.since}`} class={incident.until === null ? 'open' : 'over'}>
              <p>
                <time dateTime={new Date(incident.since).toISOString()}>
                  {day(incident.since) === day(now) ? '' : `${day(incident.since)} `}
                  {clockTime(incident.since)}
                </time>{' '}
                <strong>{incident.what}</strong> <span class="dim">{lasted(incident, now)}</span>
              </p>
              <p class="message">{incident.message}</p>
            </li>
          ))}
        </ol>
      )}
    </Panel>
  )
}

function lasted({ count, since, until }: Incident, now: number): string {
  const times = count === 1 ? 'failed once' : `failed ${count} times`
  if (until === null) return `${times}, for ${duration(Math.max(0, now - since))} now`
  return `${times} in ${duration(until - since)}, works again`
}
