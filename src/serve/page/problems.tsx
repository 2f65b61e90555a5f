import './problems.css'
import { clockTime, duration, day } from './format.js'
import type { Live } from './live.js'
import type { Status } from '../api/contract.js'
import { Panel } from './panel.js'

/** Longest silence of a recorder that responds, milliseconds. Its events should come every second. */
const silenceMs = 12_000

/** Returns true if the page may be out of date because the recorder does not respond. */
export function isAway({ isConnected, lastEventAt }: Live, now: number): boolean {
  return !isConnected || (lastEventAt !== null && now - lastEventAt > silenceMs)
}

/** Describes current problems at the top of the page. Shows nothing when there are none. */
export function Notices({ live, now }: { live: Live; now: number }) {
  const { status, lastEventAt } = live
  const lines: { readonly level: 'bad' | 'warn'; readonly text: string }[] = []
  if (isAway(live, now)) {
    const since = lastEventAt === null ? '' : ` What you see is from ${clockTime(lastEventAt)} UTC`
    const ago = lastEventAt === null ? '' : `, ${duration(Math.max(1000, now - lastEventAt))} ago.`
    lines.push({ level: 'bad', text: `The recorder does not respond; trying again.${since}${ago}` })
  } else {
    // While the database is away, all other problems follow from that.
    const problems = status?.problems ?? []
    const ofDatabase = problems.filter(({ about }) => about === 'database')
    for (const { message, isBlocking } of status?.database.isReachable === false && ofDatabase.length > 0
      ? ofDatabase.slice(0, 1)
      : problems) {
      lines.push({ level: isBlocking ? 'bad' : 'warn', text: message })
    }
  }
  return (
    <div class="notices" role="alert">
      {lines.map(({ level, text }) => (
        <p key={text} class={level}>
          {text}
        </p>
      ))}
    </div>
  )
}

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
