import './tiles.css'
import './budget.css'
import { sum } from '../../market/values.js'
import type { ComponentChildren } from 'preact'
import { grouped, inBytes } from '../../runtime/text.js'
import type { Status } from '../api/contract.js'
import { count, duration, perSecond } from './format.js'
import { goByDisk } from '../byDisk.js'
import { streamNames, streamTraits } from '../../market/stream.js'
import { Panel } from './panel.js'

/** Time for a response of the database that shows that it or the machine is busy. */
const slowMs = 1_000

/** Shows the figures that tell at a glance whether all is well. */
export function Tiles({ status }: { status: Status | null }) {
  if (status === null) return <dl class="tiles" aria-busy="true" />
  const { streams, budget, database, backlog, spool, process, gaps } = status
  const on = streams.filter(({ state }) => state !== 'off' && state !== 'idle')
  const fresh = on.filter(({ state }) => state === 'fresh').length
  const rows = sum(on.map(({ rowsPerSecond }) => rowsPerSecond))
  const stored = sum(on.map(({ rowsWritten }) => rowsWritten))
  const inState = (state: string) => sum(gaps.map((gap) => (gap.state === state ? gap.count : 0)))
  const isByDisk = goByDisk(status)
  const used = budget.overall.used / budget.overall.limit
  return (
    <dl class="tiles">
      <Tile
        name="Streams fresh"
        level={fresh < on.length ? 'bad' : isByDisk ? 'warn' : 'good'}
        note={isByDisk ? 'by way of the disk' : 'of those configured'}
      >
        {fresh}
        <small> / {on.length}</small>
      </Tile>
      <Tile name="Rows stored" note={`${count(stored)} since start`}>
        {perSecond(rows)}
        <small> /s</small>
      </Tile>
      <Tile
        name="Requests"
        level={used > 0.98 ? 'warn' : undefined}
        note={`${Math.round(used * 100)} % of ${grouped(budget.overall.limit)}`}
      >
        {grouped(budget.overall.used)}
        <small> /min</small>
      </Tile>
      <Tile
        name="Gaps"
        level={inState('open') + inState('lost') > 0 ? 'warn' : 'good'}
        note={`${count(inState('lost'))} lost, ${count(inState('repaired'))} repaired`}
      >
        {count(inState('open'))}
        <small> open</small>
      </Tile>
      <Tile
        name="Database"
        level={!database.isReachable ? 'bad' : isByDisk || (database.latencyMs ?? 0) > slowMs ? 'warn' : 'good'}
        note={database.bytes === null ? 'size not known' : `${inBytes(database.bytes)} on disk`}
      >
        {database.isReachable && database.latencyMs !== null ? duration(Math.max(1, database.latencyMs)) : 'away'}
      </Tile>
      <Tile name="Not yet stored" level={isByDisk ? 'warn' : undefined} note={`${inBytes(spool.bytes)} on the disk`}>
        {count(backlog.rows)}
        <small> rows</small>
      </Tile>
      <Tile name="Memory" note={`lag p99 ${duration(process.eventLoopLagP99Ms)}`}>
        {inBytes(process.residentBytes)}
      </Tile>
    </dl>
  )
}

interface TileProps {
  readonly name: string
  readonly note: string
  readonly level?: 'good' | 'warn' | 'bad' | undefined
  readonly children: ComponentChildren
}

function Tile({ name, note, level, children }: TileProps) {
  return (
    <div class={`tile ${level ?? ''}`}>
      <dt>{name}</dt>
      <dd class="figure">{children}</dd>
      <dd class="note">{note}</dd>
    </div>
  )
}

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
