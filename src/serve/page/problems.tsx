import './problems.css'
import { clockTime, duration, day } from './format.js'
import type { Live } from './loaded.js'
import type { BackfillStatus, Status } from '../api/contract.js'
import { type JoinedIncident, joinedIncidents } from '../joinedIncidents.js'
import { Command, Panel } from './panel.js'
import { grouped } from '../../runtime/text.js'

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

/** Shows running backfills: a line about all of them, then the series that are running or have failed. */
export function Backfills({ status }: { status: Status | null }) {
  const { waiting, running, failed } = status?.backfillCounts ?? { waiting: 0, running: 0, failed: 0 }
  const shown = (status?.backfills ?? []).filter(({ state }) => state !== 'waiting')
  const left = shown.flatMap(({ etaMs }) => (etaMs === null ? [] : [etaMs]))
  return (
    <Panel id="backfills" title="Backfills">
      {status === null ? (
        <p class="nothing">Loading…</p>
      ) : !status.database.isReachable ? (
        <p class="nothing">History waits until the database is back.</p>
      ) : waiting + running + failed === 0 ? (
        <p class="nothing">
          No history is being fetched. <Command text="npx market-recorder backfill --help" /> says how.
        </p>
      ) : (
        <>
          <p>
            {`${grouped(running)} running, ${grouped(waiting)} waiting, ${grouped(failed)} failed`}
            {left.length > 0 && `; those that run end in ${duration(Math.max(...left))}`}
          </p>
          <ul class="backfills" tabIndex={0} aria-label="Series">
            {shown.map((backfill) => (
              <Backfill key={backfill.id} backfill={backfill} />
            ))}
          </ul>
          <p class="dim">
            To end them: <Command text="npx market-recorder backfill --cancel" />
          </p>
        </>
      )}
    </Panel>
  )
}

function Backfill({ backfill: { what, state, doneShare, etaMs, message } }: { backfill: BackfillStatus }) {
  const share = Math.round((doneShare ?? 0) * 1000) / 10
  const facts = [
    ...(state === 'failed' ? ['failed'] : []),
    ...(doneShare === null ? [] : [`${share} %`]),
    ...(etaMs === null ? [] : [`${duration(etaMs)} left`]),
    ...(message === null ? [] : [message]),
  ]
  return (
    <li class={state}>
      <p>
        {what} <span class={state === 'failed' ? 'trouble' : 'dim'}>{facts.join(' · ')}</span>
      </p>
      {doneShare !== null && state === 'running' && (
        <div
          class="bar"
          role="progressbar"
          aria-label={`${what}: done`}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={share}
        >
          <span class="accent" style={{ width: `${share}%` }} />
        </div>
      )}
    </li>
  )
}
