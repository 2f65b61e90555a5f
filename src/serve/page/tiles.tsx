import './tiles.css'
import { sum } from '../../market/values.js'
import type { ComponentChildren } from 'preact'
import { grouped, inBytes } from '../../runtime/text.js'
import type { Status } from '../api/contract.js'
import { count, duration, perSecond } from './format.js'
import { goByDisk } from './problems.js'

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
