import { stripVTControlCharacters } from 'node:util'
import Table from 'cli-table3'
import { type StreamName, streamNames } from '../market/stream.js'
import { sum, type ServiceMs } from '../market/values.js'
import { streamNamed } from '../collect/streams/streams.js'
import type { Status, StreamStatus } from '../serve/api/contract.js'
import { goByDisk } from '../serve/byDisk.js'
import { type JoinedIncident, joinedIncidents } from '../serve/joinedIncidents.js'
import { counted, grouped, inBytes, inWords } from '../runtime/text.js'
import type { StoreOverview } from '../ledger/read/overview.js'
import { type Jobs, jobsProblem } from '../server/timescale/server.js'
import { bar } from './output.js'

/** State of the recording as the database shows it, without a recorder. */
export interface StoredState extends StoreOverview {
  readonly newest: Readonly<Record<StreamName, ServiceMs | null>>
  /** How the server's own jobs fare; null where it has none. */
  readonly jobs: Jobs | null
}

type Paint = (text: string, colour: keyof typeof codes) => string

const codes = { green: 32, yellow: 33, red: 31, dim: 2, bold: 1 } as const
const shownIncidents = 4
const shownBackfills = 4

export interface Screen {
  readonly columns: number
  readonly rows: number
}

const unlimited: Screen = { columns: Infinity, rows: Infinity }
/** Number of columns that the full table of streams needs. */
const wideColumns = 100

/** Formats the recorder's status. On a small screen the least important lines are left out, and long lines are cut. */
export function statusText(status: Status, withColour: boolean, screen = unlimited): string {
  const paint: Paint = (text, colour) => (withColour ? `\u001b[${codes[colour]}m${text}\u001b[0m` : text)
  const { problems, budget, backlog, spool, database, process } = status
  const incidents = joinedIncidents(status.incidents)
  const health =
    problems.length === 0
      ? paint('recording', 'green')
      : paint(counted(problems.length, 'problem'), problems.some(({ isBlocking }) => isBlocking) ? 'red' : 'yellow')
  const running = inWords(status.time - status.startedAt)
  const leftOut = leftOutLines(status.streams)
  const off = labelled(
    'Off',
    inLines(
      status.streams.filter(isOff).map(({ name }) => name),
      4,
    ),
  )
  const dropped = status.streams.flatMap(({ name, rowsDropped }) =>
    rowsDropped > 0 ? [`${name} ${grouped(rowsDropped)}`] : [],
  )
  const operations = inLines(
    budget.operations.map(({ operation, perSecond, limit }) => `${operation} ${perSecond}/${limit}`),
    3,
  )
  const lines = [
    `${paint('market-recorder', 'bold')} ${status.version} · ${health} · up ${running} · egress ${status.egress} · ${clock(status.time)} UTC`,
    ...problems.map(({ message, isBlocking }) => paint(`  ! ${message}`, isBlocking ? 'red' : 'yellow')),
    '',
    ...streamTable(status, paint, screen.columns < wideColumns).split('\n'),
    ...labelled('Dropped', inLines(dropped, 3)),
    ...off,
    ...leftOut,
    '',
    `Requests   ${bar(budget.overall.used, budget.overall.limit)} ${grouped(budget.overall.used)} of ${grouped(budget.overall.limit)} a minute` +
      (budget.pausedMs > 0 ? paint(`, paused for ${inWords(budget.pausedMs)}`, 'red') : '') +
      (budget.rate < 1 ? paint(`, at ${Math.round(budget.rate * 100)} % speed`, 'yellow') : '') +
      '; per second:',
    ...operations,
    `Waiting    ${budget.waiting.map(({ class: name, count, oldestWaitMs }) => `${name} ${count}${count > 0 ? ` for ${inWords(oldestWaitMs)}` : ''}`).join(' · ')}`,
    `Database   ${database.isReachable ? `responds in ${Math.max(1, Math.round(database.latencyMs ?? 0))} ms` : paint('away', 'red')}, ${database.lagMs === null ? '' : `${inWords(database.lagMs)} behind as a standby, `}${sizeText(database.bytes)} on disk; ` +
      `not yet stored: ${grouped(backlog.rows)} rows in memory, ${inBytes(spool.bytes)} spooled`,
    ...fleetLines(status, paint),
    `Gaps       ${gapsText(status.gaps)}`,
    `Process    ${inBytes(process.residentBytes)} of memory, event loop lag p99 ${process.eventLoopLagP99Ms.toFixed(1)} ms`,
    ...backfillSection(status),
    ...section(
      'Incidents',
      incidents
        .slice(0, shownIncidents)
        .map((incident) => paint(incidentLine(incident), incident.until === null ? 'red' : 'dim')),
      incidents.length - shownIncidents,
    ),
  ]
  return fitted(lines, [operations, leftOut, [''], off], screen).join('\n')
}

/** Removes one group of lines after another until the rest fits, and then the last lines. */
function fitted(lines: readonly string[], groups: readonly (readonly string[])[], { columns, rows }: Screen): string[] {
  const [group, ...others] = groups
  if (lines.length > rows && group !== undefined) {
    const kept = lines.filter((line) => !group.includes(line))
    return fitted(kept, others, { columns, rows })
  }
  return lines.slice(0, rows).map((line) => cut(line, columns))
}

/** Cuts a long line. A cut line loses its colour. */
function cut(line: string, columns: number): string {
  const plain = stripVTControlCharacters(line)
  return plain.length <= columns ? line : `${plain.slice(0, columns - 1)}…`
}

/** Returns lines about the other recorders; none if there are no others. */
function fleetLines({ fleet: { recorders, unowned } }: Status, paint: Paint): string[] {
  if (recorders.length < 2) return []
  const rows = recorders.map(({ egress, state, silentMs, instruments, perSecond }) =>
    state === 'gone'
      ? paint(`${egress} gone for ${inWords(silentMs)}`, 'red')
      : `${egress} ${grouped(instruments)} for ${perSecond.toFixed(1)}/s`,
  )
  const lost =
    unowned > 0 ? [paint(`           ${grouped(unowned)} of them are not requested by any recorder`, 'red')] : []
  return [...labelled('Recorders', inLines(rows, 3)), ...lost]
}

/** Formats the stored state, for when no recorder responds. */
export function storedText({ newest, gaps, bytes, jobs }: StoredState, now: ServiceMs): string {
  const table = plainTable(['stream', 'newest row', 'ago'], ['left', 'left', 'right'])
  for (const name of streamNames) {
    const at = newest[name]
    table.push(
      at === null
        ? [name, 'none of the last two days', '']
        : [name, `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`, inWords(Math.max(0, now - at))],
    )
  }
  const problem = jobs && jobsProblem(jobs)
  return [
    ...(problem === null ? [] : [`  ! ${problem}.`]),
    `Database   ${sizeText(bytes)} on disk`,
    `Gaps       ${gapsText(gaps)}`,
    table.toString(),
  ].join('\n')
}

interface Column {
  readonly name: string
  readonly cell: (stream: StreamStatus, paint: Paint, status: Status) => string
  /** True if a narrow screen leaves the column out. */
  readonly isWideOnly?: boolean
}

const columns: readonly Column[] = [
  { name: 'stream', cell: ({ name }) => name },
  {
    name: 'state',
    cell: ({ state }, paint, status) =>
      state === 'fresh' && goByDisk(status) ? paint('by disk', 'yellow') : paint(state, colourOf[state]),
  },
  { name: 'covers', cell: covers },
  { name: 'age', cell: ({ ageMs }) => (ageMs === null ? '' : inWords(ageMs)) },
  {
    name: 'allowed',
    cell: ({ freshnessLimitMs }) => (freshnessLimitMs === 0 ? '' : inWords(freshnessLimitMs)),
    isWideOnly: true,
  },
  { name: 'rows/s', cell: ({ rowsPerSecond }) => String(rowsPerSecond) },
  { name: 'stored', cell: ({ rowsWritten }) => grouped(rowsWritten), isWideOnly: true },
  { name: 'failed', cell: ({ failures }, paint) => trouble(failures, paint) },
  { name: 'skipped', cell: ({ skippedPolls }, paint) => trouble(skippedPolls, paint), isWideOnly: true },
  { name: 'rejected', cell: ({ rowsRejected }, paint) => trouble(rowsRejected, paint) },
  {
    name: 'gaps',
    cell: ({ name }, paint, { gaps }) =>
      trouble(sum(gaps.map((gap) => (gap.stream === name && gap.state !== 'repaired' ? gap.count : 0))), paint),
  },
]

const colourOf = { fresh: 'green', stale: 'red', failing: 'red', starting: 'dim', idle: 'dim', off: 'dim' } as const

function trouble(count: number, paint: Paint): string {
  return count > 0 ? paint(grouped(count), 'yellow') : '0'
}

function streamTable(status: Status, paint: Paint, isNarrow: boolean): string {
  const shown = columns.filter(({ isWideOnly = false }) => !isNarrow || !isWideOnly)
  const table = plainTable(
    shown.map(({ name }) => name),
    shown.map((_, index) => (index < 2 ? 'left' : 'right')),
  )
  const rows = status.streams.filter((stream) => !isOff(stream))
  for (const stream of rows) table.push(shown.map(({ cell }) => cell(stream, paint, status)))
  return table.toString()
}

const isOff = ({ state }: StreamStatus) => state === 'off'

/** Streams whose targets are whole lists, not instruments. */
const listed: readonly StreamName[] = streamNames.filter((name) => streamNamed(name).kind === 'lists')

function covers({ name, targets }: StreamStatus): string {
  return listed.includes(name) ? `${grouped(targets)} ${targets === 1 ? 'list' : 'lists'}` : grouped(targets)
}

/** Returns lines about streams with late targets, and about instruments that streams leave out. */
function leftOutLines(streams: readonly StreamStatus[]): string[] {
  const late = streams.filter(({ lateTargets }) => lateTargets > 0)
  const lateLines = late.map(
    ({ name, lateTargets, targets }) => `Late       ${name}: ${grouped(lateTargets)} of ${grouped(targets)} overdue`,
  )
  const leftOut = streams.flatMap(({ name, leftOut: { kind, turnover, number: beyond, limits } }) => {
    const parts = [
      kind > 0 ? `${grouped(kind)} of unselected kinds` : '',
      turnover > 0 ? `${grouped(turnover)} with too little turnover` : '',
      beyond > 0 ? `${grouped(beyond)} beyond the selected number` : '',
      limits > 0 ? `${grouped(limits)} beyond the limits` : '',
    ].filter((part) => part !== '')
    return parts.length === 0 ? [] : [`Left out   ${name}: ${parts.join(', ')}`]
  })
  return [...lateLines, ...leftOut]
}

/** Names of the characters that draw a table's borders. */
const borders = ['top', 'bottom', 'left', 'mid', 'right'].flatMap((side) => [
  side,
  ...['left', 'mid', 'right'].map((end) => `${side}-${end}`),
])

function plainTable(head: string[], colAligns: ('left' | 'right')[]): Table.Table {
  return new Table({
    head,
    colAligns,
    chars: { ...Object.fromEntries(borders.map((border) => [border, ''])), middle: '  ' },
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  })
}

function section(title: string, lines: readonly string[], more: number): string[] {
  if (lines.length === 0) return []
  return ['', title, ...lines.map((line) => `  ${line}`), ...(more > 0 ? [`  and ${more} more`] : [])]
}

/** Counts all backfills. The first one that failed is shown even if many run. */
function backfillSection({ backfills, backfillCounts }: Status): string[] {
  const { running, waiting, failed } = backfillCounts
  const firstFailed = backfills.find(({ state }) => state === 'failed')
  const others = backfills.filter((backfill) => backfill !== firstFailed)
  const shown = [...(firstFailed === undefined ? [] : [firstFailed]), ...others].slice(0, shownBackfills)
  const title = `Backfills: ${grouped(running)} running, ${grouped(waiting)} waiting, ${grouped(failed)} failed`
  return section(title, shown.map(backfillLine), running + waiting + failed - shown.length)
}

function backfillLine({ what, state, doneShare, etaMs, message }: Status['backfills'][number]): string {
  const done = doneShare === null ? '' : ` ${bar(doneShare, 1)} ${Math.round(doneShare * 100)} %`
  const eta = etaMs === null ? '' : `, ${inWords(etaMs)} left`
  return `${what}: ${state}${done}${eta}${message === null ? '' : ` (${message})`}`
}

function incidentLine({ what, message, count, since, until }: JoinedIncident): string {
  const times = count === 1 ? 'once' : `${count} times`
  const end = until === null ? 'still failing' : `works again since ${clock(until)}`
  return `${clock(since)} ${what} failed ${times}, ${end}: ${message}`
}

function gapsText(gaps: StoreOverview['gaps']): string {
  const inState = (state: string) => sum(gaps.map((gap) => (gap.state === state ? gap.count : 0)))
  return `${grouped(inState('open'))} open, ${grouped(inState('lost'))} lost, ${grouped(inState('repaired'))} repaired`
}

/** Splits parts into lines that continue a label, with `perLine` parts on each. */
function inLines(parts: readonly string[], perLine: number): string[] {
  const lines = Array.from({ length: Math.ceil(parts.length / perLine) }, (_, line) =>
    parts.slice(line * perLine, (line + 1) * perLine),
  )
  return lines.map((line) => `           ${line.join(' · ')}`)
}

function labelled(label: string, lines: readonly string[]): string[] {
  return lines.map((line, index) => (index === 0 ? label.padEnd(11) + line.slice(11) : line))
}

function sizeText(bytes: number | null): string {
  return bytes === null ? 'unknown size' : inBytes(bytes)
}

function clock(time: number): string {
  return new Date(time).toISOString().slice(11, 19)
}
