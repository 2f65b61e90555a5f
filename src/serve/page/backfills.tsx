import type { BackfillStatus, Status } from '../api/contract.js'
import { duration, moment } from './format.js'
import { Panel } from './panel.js'

/** History that is being fetched, with how long it will take. */
export function Backfills({ status }: { status: Status | null }) {
  const backfills = status?.backfills ?? []
  return (
    <Panel id="backfills" title="Backfills">
      {backfills.length === 0 ? (
        <p class="nothing">No history is being fetched.</p>
      ) : (
        <ul class="backfills">
          {backfills.map((backfill) => (
            <Backfill key={backfill.id} backfill={backfill} />
          ))}
        </ul>
      )}
    </Panel>
  )
}

function Backfill({ backfill }: { backfill: BackfillStatus }) {
  const { what, state, doneShare, reachedAt, etaMs, message } = backfill
  const share = Math.round((doneShare ?? 0) * 1000) / 10
  return (
    <li class={state}>
      <p>
        <strong>{what}</strong>{' '}
        <span class={`state ${state === 'running' ? 'good' : state === 'failed' ? 'bad' : ''}`}>{state}</span>
      </p>
      {doneShare !== null && (
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
      <p class="dim">
        {doneShare !== null && `${share} %`}
        {reachedAt !== null && ` · back to ${moment(reachedAt)}`}
        {etaMs !== null && ` · ${duration(etaMs)} left`}
        {message !== null && ` · ${message}`}
      </p>
    </li>
  )
}
