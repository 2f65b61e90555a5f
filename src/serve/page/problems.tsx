import './problems.css'
import { clockTime, duration, day } from './format.js'
import type { Live } from './loaded.js'
import type { Status } from '../api/contract.js'
import { type JoinedIncident, joinedIncidents } from '../joinedIncidents.js'
import { Panel } from './panel.js'

/** Longest silence of a recorder that responds, milliseconds. Its events should come every second. */
const silenceMs = 12_000

/** Returns true if the page may be out of date because the recorder does not respond. */
export function isAway({ isConnected, lastEventAt }: Live, now: number): boolean {
  return !isConnected || (lastEventAt !== null && now - lastEventAt > silenceMs)
}

/** Describes current problems at the top of the page. Shows nothing when there are none. */
export function Notices({ live, now }: { live: Live; now: number }) {
  const problems = isAway(live, now)
    ? [{ message: awayText(live, now), isBlocking: true }]
    : (live.status?.problems ?? [])
  return (
    <div class="notices" role="alert">
      {problems.map(({ message, isBlocking }) => (
        <p key={message} class={isBlocking ? 'bad' : 'warn'}>
          {message}
        </p>
      ))}
    </div>
  )
}

function awayText({ lastEventAt }: Live, now: number): string {
  const text = 'The recorder does not respond; trying again.'
  if (lastEventAt === null) return text
  const ago = duration(Math.max(1000, now - lastEventAt))
  return `${text} What you see is from ${clockTime(lastEventAt)} UTC, ${ago} ago.`
}

/** Lists recent failures, newest first. What fails again and again, or for one cause, has one entry. */
export function Incidents({ status, now }: { status: Status | null; now: number }) {
  const incidents = joinedIncidents(status?.incidents ?? [])
  return (
    <Panel id="incidents" title="Incidents" aside={<p class="aside">since the start</p>}>
      {incidents.length === 0 ? (
        <p class="nothing">{status === null ? 'Loading…' : 'Nothing has failed.'}</p>
      ) : (
        <ol class="incidents" tabIndex={0} aria-label="Incidents, the newest first">
          {incidents.map((incident) => {
            const { what, since, until, message, before, firstSince } = incident
            return (
              <li key={what} class={until === null ? 'open' : 'over'}>
                <p>
                  <time dateTime={new Date(since).toISOString()}>{when(since, now)}</time> <strong>{what}</strong>{' '}
                  <span class="dim">
                    {lasted(incident, now)}
                    {before > 0 && `; ${before} before, from ${when(firstSince, now)}`}
                  </span>
                </p>
                <p class="message">{message}</p>
              </li>
            )
          })}
        </ol>
      )}
    </Panel>
  )
}

function when(time: number, now: number): string {
  return day(time) === day(now) ? clockTime(time) : `${day(time)} ${clockTime(time)}`
}

function lasted({ count, since, until }: JoinedIncident, now: number): string {
  const times = count === 1 ? 'failed once' : `failed ${count} times`
  if (until === null) return `${times}, for ${duration(Math.max(0, now - since))} now`
  return `${times} in ${duration(until - since)}, works again`
}

/** Returns true while responses go to the disk for longer than a busy machine needs. */
export function goByDisk({ database, problems }: Status): boolean {
  return !database.isReachable || problems.some(({ about }) => about === 'spool')
}
