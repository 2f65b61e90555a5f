import { grouped } from '../../runtime/text.js'
import type { BackfillStatus, Status } from '../api/contract.js'
import { duration } from './format.js'
import { Command, Panel } from './panel.js'

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
