import './budget.css'
import { grouped } from '../../runtime/text.js'
import type { Status } from '../api/contract.js'
import { duration, perSecond } from './format.js'
import { Panel } from './panel.js'

/** Shows how much of the service's limits is in use, and how many requests wait. */
export function Budget({ status }: { status: Status | null }) {
  const budget = status?.budget
  const notes =
    budget === undefined
      ? []
      : [
          ...(budget.pausedMs > 0 ? [`paused for ${duration(budget.pausedMs)} after a rejection`] : []),
          ...(budget.rate < 1 ? [`at ${Math.round(budget.rate * 100)} % speed after a rejection`] : []),
        ]
  return (
    <Panel
      id="budget"
      title="Request budget"
      aside={<p class="aside">{budget === undefined ? '' : `${budget.inFlight} under way`}</p>}
    >
      {budget !== undefined && (
        <>
          <div class="meters">
            <Meter name="all, per minute" used={budget.overall.used} limit={budget.overall.limit} isMain />
            {budget.operations.map(({ operation, perSecond: mean, limit }) => (
              <Meter key={operation} name={operation} used={mean} limit={limit} />
            ))}
          </div>
          <p class="note dim">Waiting for their turn: {budget.waiting.map(waitingText).join(' · ')}</p>
          {notes.map((note) => (
            <p key={note} class="warn note">
              {note}
            </p>
          ))}
        </>
      )}
    </Panel>
  )
}

function waitingText({ class: name, count, oldestWaitMs }: Status['budget']['waiting'][number]): string {
  return `${name} ${grouped(count)}${count === 0 ? '' : ` for ${duration(oldestWaitMs)}`}`
}

function Meter({ name, used, limit, isMain = false }: { name: string; used: number; limit: number; isMain?: boolean }) {
  const share = limit === 0 ? 0 : Math.min(1, used / limit)
  const text = isMain ? grouped(used) : perSecond(used)
  return (
    <div class={`meter-row ${isMain ? 'main' : ''}`} data-operation={isMain ? 'all' : name}>
      <span>{name}</span>
      <span
        class="bar"
        role="meter"
        aria-label={`${name}: ${text} of ${limit} requests ${isMain ? 'a minute' : 'a second'}`}
        aria-valuemin={0}
        aria-valuemax={limit}
        aria-valuenow={used}
      >
        <span class={share > 0.98 ? 'warn' : 'accent'} style={{ width: `${share * 100}%` }} />
      </span>
      <span class="value">
        {text} <span class="dim">/ {grouped(limit)}</span>
      </span>
    </div>
  )
}
