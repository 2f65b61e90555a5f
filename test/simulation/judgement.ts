import type pg from 'pg'
import type { Config } from '../../src/config/resolve.js'
import { type StreamName, streamNames, streamTraits } from '../../src/market/stream.js'
import { minuteMs } from '../../src/market/values.js'
import type { TimeRange } from '../../src/market/timeRange.js'
import { freshnessLimits } from '../../src/serve/freshness.js'
import type { ServedResponse } from '../../src/simulator/control.js'
import type { Service } from '../../src/simulator/service.js'
import type { FillRow } from '../../src/simulator/world/fillRows.js'
import { falseClaims, falseFillClaims, missingCandles, revisions } from './claims.js'
import { compareGaps } from '../chaos/compareGaps.js'
import { compareTables, type DeadTime } from '../chaos/compareTables.js'
import type { SimulatedMachine } from './simulatedMachine.js'
import { settleMs } from './worldPlan.js'

type Violate = (line: string) => void

const stretchMs = 21_600_000

/** A database or a disk that is only slow never leaves so many responses in memory. */
const maxBatches = 400
/** The longest time until a closed candle is asked for. */
const polledWithinMs = 10_000
/** Interval at which the daemon looks for gaps that candles disprove, with some time for the work. */
const dismissedWithinMs = 30_000

/** The longest time that a recorder takes to stop before it is started again. */
const recordingAfterMs = 60_000
/** The longest time until the database has what piled up on a disk in a few minutes, after a restart, too. */
const storedAfterMs = 60_000
/** The longest wait between retries. */
const freshAfterMs = 120_000

/** Watches the recorders from outside while they run. */
export function watchMachines(machines: readonly SimulatedMachine[], violate: Violate) {
  let mostBatches = 0
  return {
    mostBatches: () => mostBatches,
    look() {
      for (const { recorder } of machines) {
        if (recorder === undefined) continue
        const { batches } = recorder.storing.queue.backlog()
        mostBatches = Math.max(mostBatches, batches)
        if (batches > maxBatches) violate(`${batches} responses wait in memory`)
      }
    },
    /** Judges long after all faults: one machine records, everything is fresh, and nothing waits. */
    judgeRest() {
      const recording = machines.filter(({ recorder }) => recorder !== undefined)
      if (recording.length === 0) violate('nobody records although all faults are over')
      for (const machine of machines) judgeDisk(machine, violate)
      if (recording.some(({ recorder }) => recorder?.storing.queue.backlog().isSpooling))
        violate('responses still go to the spool although all faults are over')
      judgeFreshness(recording, violate)
    },
    /** Judges the promises for a calm of so many milliseconds. */
    judgeCalm(calmMs: number) {
      const recording = machines.filter(({ recorder }) => recorder !== undefined)
      if (calmMs >= recordingAfterMs && recording.length === 0)
        violate(`nobody records although nothing has gone wrong for ${recordingAfterMs / 1000} s`)
      if (calmMs >= storedAfterMs) for (const machine of machines) judgeDisk(machine, violate)
      if (calmMs >= freshAfterMs) judgeFreshness(recording, violate)
    },
  }
}

/** One of them has the right to send; another one that had it before waits for it. */
function judgeFreshness(recording: readonly SimulatedMachine[], violate: Violate): void {
  const stale = recording.map(staleStreams).toSorted((a, b) => a.length - b.length)[0] ?? []
  for (const line of stale) violate(line)
}

/** Judges that the spool of a recorder is empty, also while it waits for the right to send. */
function judgeDisk({ disk, isWanted }: SimulatedMachine, violate: Violate): void {
  if (isWanted && disk.spooledBytes > 0) violate('something is still in the spool although nothing goes wrong any more')
}

const knownLimits = new WeakMap<Config, ReturnType<typeof freshnessLimits>>()

/** To find them goes through all matches of a schedule within a day. */
function limitsOf(config: Config): ReturnType<typeof freshnessLimits> {
  const limits = knownLimits.get(config) ?? freshnessLimits(config)
  knownLimits.set(config, limits)
  return limits
}

function staleStreams(machine: SimulatedMachine): string[] {
  const { recorder, config } = machine
  if (recorder === undefined || config === undefined) return []
  const { phase, stats } = recorder.collector
  const limits = limitsOf(config)
  const lines = phase === 'collecting' ? [] : [`a recorder is still ${phase}`]
  for (const name of streamNames) {
    const limit = limits[name]
    // Where nothing is covered, nothing can be stale.
    if (limit === null || stats[name].targets === 0) continue
    const at = Math.max(stats[name].lastStoredAt ?? -Infinity, stats[name].lastIdleAt ?? -Infinity)
    const ageMs = machine.now() - at
    const { lateTargets, targets } = stats[name]
    if (lateTargets > targets / 10) lines.push(`${name}: ${lateTargets} of ${targets} were not asked in due time`)
    if (ageMs > limit) lines.push(`${name} is stale: last stored ${Math.round(ageMs / 1000)} s ago`)
  }
  return lines
}

/** Judges that what is proven is stored. It holds at any moment. */
export async function judgeClaims(pool: pg.Pool, service: Service, range: TimeRange, violate: Violate): Promise<void> {
  for (const line of (await falseClaims(pool, service, range)).slice(0, 5)) violate(line)
}

/** Judges fills that have just happened: what is proven is stored. */
export async function judgeNewFills(
  pool: pg.Pool,
  service: Service,
  range: TimeRange,
  violate: Violate,
): Promise<void> {
  for (const line of (await falseFillClaims(pool, service, range)).slice(0, 5)) violate(line)
}

/** Judges that everything that can be fetched again is stored in the end, whatever went wrong until `faultsEndAt`. */
export async function judgeRepairs(
  pool: pg.Pool,
  service: Service,
  faultsEndAt: number,
  violate: Violate,
): Promise<void> {
  for (const line of (await missingCandles(pool, service, faultsEndAt - 60_000)).slice(0, 5)) violate(line)
}

export interface Outcome {
  readonly pool: pg.Pool
  readonly service: Service
  readonly deadTimes: readonly DeadTime[]
  readonly stoppedAt: number
  /** True if the journal of the service was kept. */
  readonly isServedKnown: boolean
  /** True if all requested tickers are recorded. The service cannot tell a look from a request to store. */
  readonly areTickersRecorded: boolean
  /** When a disk was full for the last time, by the service's clock; -Infinity when none was. */
  readonly lastFullDiskMs: number
  /** How far the wall clock of a machine is off at the end. */
  readonly clockOffMs: number
}

/** Judges at the end that everything that was served is stored as it was served, or is in a gap. */
export async function judgeAtLast(
  { pool, service, deadTimes, stoppedAt, isServedKnown, areTickersRecorded, lastFullDiskMs, clockOffMs }: Outcome,
  violate: Violate,
): Promise<{ readonly gaps: number; readonly lostFills: number }> {
  if (isServedKnown) {
    const served = service.control.journal()
    const expected = await withoutDropped(pool, areTickersRecorded ? served : served.map(withoutTickers))
    const journal = await withoutDroppedFirst(pool, expected, lastFullDiskMs)
    const tables = await compareTables(pool, journal, deadTimes, [], settleMs, stoppedAt - polledWithinMs)
    for (const { wrong } of tables) for (const line of wrong.slice(0, 5)) violate(line)
  }
  await judgeLists(pool, service, violate)
  for (const range of await stretchesUntil(pool, stoppedAt + 60_000)) await judgeClaims(pool, service, range, violate)
  for (const line of (await revisions(pool)).slice(0, 5)) violate(line)
  // With a clock that is ahead a candle is asked for before it closes, and again with the next one.
  const candlesLateMs = clockOffMs > settleMs ? minuteMs : clockOffMs
  const report = await compareGaps(pool, service.world, stoppedAt - settleMs - dismissedWithinMs - candlesLateMs)
  for (const line of [...report.falseClaims, ...report.wrong].slice(0, 10)) violate(line)
  return { gaps: report.gaps, lostFills: report.lostFills }
}

/** Judges that no listed instrument counts as gone and no row was rejected: all rows follow the specification. */
async function judgeLists(pool: pg.Pool, service: Service, violate: Violate): Promise<void> {
  const { rows } = await pool.query<{ readonly category: string; readonly symbol: string }>(
    `select category, symbol from market.instrument_history h
     where valid_to is not null and not exists (
       select from market.instrument_history n
       where n.category = h.category and n.symbol = h.symbol and n.valid_from = h.valid_to)`,
  )
  for (const { category, symbol } of rows)
    if (!wasCutTwice(service, category))
      violate(`${category} ${symbol}: taken for gone, though it was listed all the time`)
  const { rows: rejected } = await pool.query<{ readonly reason: string }>(
    'select reason from recorder.rejected_row order by reason limit 3',
  )
  for (const { reason } of rejected) violate(`a row was rejected: ${reason}`)
}

/** Two lists in a row that were cut off are believed, and one may go of a short list. */
function wasCutTwice(service: Service, category: string): boolean {
  const sizes = service.control
    .journal()
    .filter(
      ({ operation, parameters, data }) => operation === 'instruments' && parameters['category'] === category && data,
    )
    .map(({ data }) => (data as readonly unknown[]).length)
  const whole = Math.max(...sizes)
  return whole < 3 || sizes.some((size, place) => size < whole && (sizes[place + 1] ?? whole) < whole)
}

/** Tickers need not be stored; what is stored of them has to be as it was served. */
function withoutTickers(response: ServedResponse): ServedResponse {
  return response.operation === 'tickers' ? { ...response, isLastOfConnection: true } : response
}

/** Stretches from the first row on, each short enough for its rows and the truth's to be in memory. */
async function stretchesUntil(pool: pg.Pool, to: number): Promise<TimeRange[]> {
  const { rows } = await pool.query<{ readonly oldest: number | null }>(
    `select (extract(epoch from least(min(lower(ranges)),
       (select min(ts) from market.fills), (select min(open_time) from market.candles))) * 1000)::float8 as oldest
     from recorder_page.coverage where not isempty(ranges)`,
  )
  const oldest = Math.floor((rows[0]?.oldest ?? to) / stretchMs) * stretchMs
  const starts = Array.from({ length: Math.ceil((to - oldest) / stretchMs) }, (_, place) => oldest + place * stretchMs)
  return starts.map((from) => ({ from, to: Math.min(to, from + stretchMs) }))
}

interface KnownGap {
  readonly stream: string
  readonly category: string
  readonly symbol: string
  readonly from: number
  readonly to: number
}

/**
 * Removes the responses that neither database nor disk took and that a gap names as lost. For fills and candles a gap
 * names the times of rows, for the others that of the response.
 */
async function withoutDropped(pool: pg.Pool, journal: readonly ServedResponse[]): Promise<readonly ServedResponse[]> {
  const { rows: gaps } = await pool.query<KnownGap>(
    `select stream, category, symbol, (extract(epoch from lower(range)) * 1000)::float8 as "from",
       (extract(epoch from upper(range)) * 1000)::float8 as "to"
     from recorder_page.gap where state <> 'repaired'`,
  )
  const isDropped = ({ operation, parameters, atMs, data }: ServedResponse) => {
    const { category, symbol } = parameters
    const times =
      operation === 'fills'
        ? (data as readonly { readonly ts: string }[]).map(({ ts }) => Number(ts))
        : operation === 'candles' || operation === 'history-candles'
          ? (data as readonly (readonly string[])[]).map(([openTime]) => Number(openTime))
          : [atMs]
    return gaps.some(
      (gap) =>
        streamTraits[gap.stream as StreamName].operation.split('history-').at(-1) ===
          operation.split('history-').at(-1) &&
        (category === undefined || gap.category === category) &&
        (gap.symbol === '*' || gap.symbol === symbol) &&
        times.some((time) => gap.from <= time && time < gap.to),
    )
  }
  if (gaps.length === 0) return journal
  return journal.map((response) =>
    response.data !== null && isDropped(response) ? { ...response, isLastOfConnection: true } : response,
  )
}

/**
 * A full disk may cost the very first responses of an instrument's fills while the database is away. The recording then
 * begins with the first one that was kept, and nothing claims what only earlier ones showed.
 */
async function withoutDroppedFirst(
  pool: pg.Pool,
  journal: readonly ServedResponse[],
  lastFullDiskMs: number,
): Promise<readonly ServedResponse[]> {
  const { rows } = await pool.query<{ readonly category: string; readonly symbol: string; readonly first: string }>(
    'select category, symbol, min(exec_id::numeric)::text as first from market.fills group by category, symbol',
  )
  const firstIds = new Map(rows.map(({ category, symbol, first }) => [`${category} ${symbol}`, BigInt(first)]))
  return journal.map((response) => {
    const { operation, parameters, data, atMs } = response
    if (operation !== 'fills' || data === null || atMs > lastFullDiskMs) return response
    const { category, symbol } = parameters
    const firstId = firstIds.get(`${category} ${symbol}`)
    const isInRecording = ({ execId }: FillRow) => firstId !== undefined && BigInt(execId) >= firstId
    return { ...response, data: (data as readonly FillRow[]).filter(isInRecording) }
  })
}
