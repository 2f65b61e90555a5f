import './budget.css'
import { grouped } from '../../runtime/text.js'
import { streamNames, streamTraits } from '../../market/stream.js'
import type { Status } from '../api/contract.js'
import { duration, perSecond } from './format.js'
import { Panel } from './panel.js'

const titlesOfPast: Readonly<Record<string, string>> = {
  'history-candles': 'Candles, past',
  'spot-fills-history': 'Spot fills, past',
  'futures-fills-history': 'Futures fills, past',
}

/** Returns the name of an operation for people. */
function titleOf(operation: string): string {
  const stream = streamNames.find((name) => streamTraits[name].operation === operation)
  return stream === undefined ? (titlesOfPast[operation] ?? operation) : streamTraits[stream].title
}

/** Shows how much of the service's limits is in use, and how many requests wait. */
export function Budget({ status }: { status: Status | null }) {
  const budget = status?.budget
  const on = new Set<string>(
    status?.streams.flatMap(({ name, state }) =>
      state === 'off' || state === 'idle' ? [] : [streamTraits[name].operation],
    ),
  )
  const isUsed = ({ operation, perSecond: mean }: Status['budget']['operations'][number]) =>
    on.has(operation) || mean > 0
  const unused = budget?.operations.filter((operation) => !isUsed(operation)) ?? []
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
            {budget.operations.filter(isUsed).map(({ operation, perSecond: mean, limit }) => (
              <Meter key={operation} name={titleOf(operation)} used={mean} limit={limit} />
            ))}
          </div>
          {unused.length > 0 && (
            <details class="note dim">
              <summary>{unused.length} limits that nothing uses</summary>
              {unused.map(({ operation, limit }) => `${titleOf(operation)} ${limit}/s`).join(' · ')}
            </details>
          )}
          <p class="note dim">Waiting for their turn: {budget.waiting.map(waitingText).join(' · ')}</p>
          {budget.pausedMs > 0 && <p class="warn note">paused for {duration(budget.pausedMs)} after a rejection</p>}
          {budget.rate < 1 && <p class="warn note">at {Math.round(budget.rate * 100)} % speed after a rejection</p>}
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
    <div class={`meter-row ${isMain ? 'main' : ''}`}>
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
        {!isMain && <span class="dim"> /s</span>}
      </span>
    </div>
  )
}
