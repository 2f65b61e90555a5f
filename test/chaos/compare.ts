import type pg from 'pg'
import { closeTime, type Interval } from '../../src/market/candle.js'
import type { Category } from '../../src/market/category.js'
import type { ServedResponse } from '../../src/simulator/control.js'
import type { FillRow } from '../../src/simulator/world/fillRows.js'
import type { World } from '../../src/simulator/world/world.js'
import { keyColumns, type RecordedTable, servedTruth, type TruthRow, withoutPast } from '../support/servedTruth.js'
import { storedRows } from '../support/storedRows.js'

/** When the daemon was dead: from the kill to the next start, by the wall clock. */
export interface DeadTime {
  readonly from: number
  readonly to: number
  /** How late a few bytes were on the disk at the worst just before; 0 when not said. */
  readonly slowestMs?: number
}

/** An accident, with the time that it took. */
export interface Happened {
  readonly from: number
  readonly to: number
  readonly what: string
}

export interface TableReport {
  readonly table: RecordedTable
  readonly served: number
  readonly stored: number
  /**
   * Rows that only answers held which came in the last moment before a kill, while the daemon was dead, or so late that it may
   * have given up waiting.
   */
  readonly diedWithTheProcess: number
  /** How long before the kill the oldest of them had been served, in milliseconds. */
  readonly oldestDiedMs: number
  /** What must not be: one line each. */
  readonly wrong: readonly string[]
}

/** An answer that came so shortly before a kill may not have been durable yet: the database has 2 s for it, then it goes to the disk. */
const notYetDurableMs = 2_500
/** The end of those 2 s, a write and a sync are each as late as a busy machine has them. */
const slowSteps = 3
/** Of so many missing rows of a table it is told what happened around them. */
const maxExplained = 5

/**
 * Compares every stored row with what was served. Rejects when a key is stored twice.
 *
 * @param stoppedAt when the recorder was: a candle that was being formed by then may have been in a response for the past alone, from which only closed ones are stored
 */
export async function compareTables(
  pool: pg.Pool,
  journal: readonly ServedResponse[],
  deadTimes: readonly DeadTime[],
  history: readonly Happened[],
  settleMs: number,
  stoppedAt = Infinity,
): Promise<TableReport[]> {
  const truth = servedTruth(journal, settleMs)
  let safe: ReturnType<typeof servedTruth> | undefined
  /** Asked of rows that are missing: mostly there are none. */
  const isSafe = (table: RecordedTable, key: string) => {
    if (table === 'candles' && closesAt(key) + settleMs > stoppedAt) return false
    safe ??= servedTruth(
      withoutPast(journal).filter(
        (answer) => answer.isLastOfConnection === undefined && ageAtKill(answer.deliveredAtMs, deadTimes) === null,
      ),
      settleMs,
    )
    return safe[table].has(key)
  }
  const ages = ageOfKeys(journal, deadTimes, settleMs)
  const circumstances = (table: RecordedTable, key: string) =>
    journal
      .filter((answer) => servedTruth([answer], settleMs)[table].has(key))
      .map(({ operation, atMs, deliveredAtMs = 0 }) => {
        const around = history
          .filter(({ from, to }) => from - 1_000 < deliveredAtMs && atMs < to + 1_000)
          .map(({ from, to, what }) => `${what} from ${from - deliveredAtMs} to ${to - deliveredAtMs} ms`)
        const kills = deadTimes
          .filter(({ from }) => Math.abs(from - deliveredAtMs) < 30_000)
          .map(({ from, slowestMs = 0 }) => `killed ${from - deliveredAtMs} ms later, a disk took ${slowestMs} ms`)
        const when = `${operation} delivered at ${new Date(deliveredAtMs).toISOString()}, asked ${deliveredAtMs - atMs} ms before`
        return [when, ...kills, ...around].join('; ')
      })
      .join(' | ')
  const reports: TableReport[] = []
  for (const table of Object.keys(keyColumns) as RecordedTable[]) {
    const stored = await storedRows(pool, table)
    const wrong: string[] = []
    let died = 0
    let oldestDiedMs = 0
    for (const [key, served] of truth[table]) {
      const row = stored.get(key)
      if (row === undefined) {
        if (isSafe(table, key)) {
          // To look for them takes a while.
          const why = wrong.length < maxExplained ? `; ${circumstances(table, key)}` : ''
          wrong.push(`${table} ${key}: served, not stored${why}`)
        } else {
          died++
          oldestDiedMs = Math.max(oldestDiedMs, ages.get(`${table} ${key}`) ?? 0)
        }
      } else if (!served.some((candidate) => isSame(row, candidate))) {
        wrong.push(`${table} ${key}: stored as ${JSON.stringify(row)}, served as ${JSON.stringify(served.at(-1))}`)
      }
    }
    for (const key of stored.keys()) if (!truth[table].has(key)) wrong.push(`${table} ${key}: stored, never served`)
    reports.push({
      table,
      served: truth[table].size,
      stored: stored.size,
      diedWithTheProcess: died,
      oldestDiedMs,
      wrong,
    })
  }
  return reports
}

function isSame(stored: TruthRow, served: TruthRow): boolean {
  return Object.entries(served).every(([column, value]) => stored[column] === value)
}

/** Of the candle with this key. */
function closesAt(key: string): number {
  const [interval, openTime] = key.split(' ').slice(-2)
  return closeTime(Number(openTime), interval as Interval)
}

/** How long before a kill it came; 0 while the daemon was dead; null when it had the time to become durable. */
function ageAtKill(deliveredAtMs: number | undefined, deadTimes: readonly DeadTime[]): number | null {
  if (deliveredAtMs === undefined) return 0
  for (const { from, to, slowestMs = 0 } of deadTimes) {
    if (deliveredAtMs > from - notYetDurableMs - slowSteps * slowestMs && deliveredAtMs <= to)
      return Math.max(0, from - deliveredAtMs)
  }
  return null
}

function ageOfKeys(journal: readonly ServedResponse[], deadTimes: readonly DeadTime[], settleMs: number) {
  const ages = new Map<string, number>()
  for (const answer of journal) {
    const age = ageAtKill(answer.deliveredAtMs, deadTimes)
    if (age === null) continue
    for (const [table, rows] of Object.entries(servedTruth([answer], settleMs))) {
      for (const key of rows.keys()) ages.set(`${table} ${key}`, Math.max(age, ages.get(`${table} ${key}`) ?? 0))
    }
  }
  return ages
}

export interface GapReport {
  readonly lostFills: number
  readonly gaps: number
  /** Share of the lost fills that lie in a recorded gap. */
  readonly recall: number
  /** Share of the recorded gaps in which fills were lost. */
  readonly precision: number
  /**
   * Gaps in which nothing was lost, in a minute of which something else is not recorded. Two full answers that adjoin
   * without sharing a fill look like answers with a gap between them; a candle shows that a minute is complete, but not
   * which of its gaps are none. Nor can anything be told of a minute whose candle is not recorded, or so late that the
   * daemon had no time to compare it.
   */
  readonly undecidable: number
  readonly wrong: readonly string[]
  /** Instruments in whose proven stretches a fill is missing. */
  readonly falseClaims: readonly string[]
}

/** How many of the minutes (counted from the epoch, both included) have a closed candle: only that can tell a gap from none. */
async function closedMinutes(
  pool: pg.Pool,
  category: string,
  symbol: string,
  first: number,
  last: number,
): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::int as count from market.candles
     where category = $1 and symbol = $2 and type = 'market' and interval = '1m' and is_closed
       and open_time between to_timestamp($3) and to_timestamp($4)`,
    [category, symbol, first * 60, last * 60],
  )
  return rows[0]?.count ?? 0
}

/**
 * Compares the recorded gaps of fills with the fills that really happened between the first and the last stored one.
 *
 * @param judgedUntil minutes that ended before this have been compared with their candles by the daemon
 */
export async function compareGaps(pool: pg.Pool, world: World, judgedUntil: number): Promise<GapReport> {
  const { rows: instruments } = await pool.query<{ category: Category; symbol: string; first: number; last: number }>(
    `select category, symbol, (extract(epoch from min(ts)) * 1000)::float8 as first,
       (extract(epoch from max(ts)) * 1000)::float8 as last
     from market.fills group by category, symbol`,
  )
  const wrong: string[] = []
  const falseClaims: string[] = []
  let lostFills = 0
  let found = 0
  let gapCount = 0
  let rightGaps = 0
  let undecidable = 0
  for (const { category, symbol, first, last } of instruments) {
    const key = [category, symbol]
    const { rows: stored } = await pool.query<{ id: string }>(
      'select exec_id as id from market.fills where category = $1 and symbol = $2',
      key,
    )
    const { rows: gaps } = await pool.query<{ from: number; to: number }>(
      `select (extract(epoch from lower(range)) * 1000)::float8 as "from",
         (extract(epoch from upper(range)) * 1000)::float8 as "to"
       from recorder_page.gap where stream = 'fills' and category = $1 and symbol = $2 and state <> 'repaired'`,
      key,
    )
    const { rows: covered } = await pool.query<{ from: number; to: number }>(
      `select (extract(epoch from lower(r)) * 1000)::float8 as "from",
         (extract(epoch from upper(r)) * 1000)::float8 as "to"
       from recorder_page.coverage, unnest(ranges) r where stream = 'fills' and category = $1 and symbol = $2`,
      key,
    )
    const ids = new Set(stored.map(({ id }) => id))
    const isIn = (ts: number) => (range: { from: number; to: number }) => range.from <= ts && ts < range.to
    // By their order, not by time: others of the first one's millisecond may have happened before the recording began.
    const happened = world.fills(category, symbol, first, last + 1)
    const isStored = ({ execId }: FillRow) => ids.has(execId)
    const lost = happened
      .slice(happened.findIndex(isStored), happened.findLastIndex(isStored))
      .filter((fill) => !isStored(fill))
      .map(({ ts }) => Number(ts))
    lostFills += lost.length
    gapCount += gaps.length
    for (const ts of lost) {
      if (gaps.some(isIn(ts))) found++
      else wrong.push(`${category} ${symbol}: a fill at ${new Date(ts).toISOString()} is lost without a gap`)
      if (covered.some(isIn(ts)))
        falseClaims.push(
          `${category} ${symbol}: a fill at ${new Date(ts).toISOString()} is missing in a proven stretch`,
        )
    }
    for (const gap of gaps) {
      const [first, last] = [Math.floor(gap.from / 60_000), Math.floor((gap.to - 1) / 60_000)]
      if (lost.some((ts) => isIn(ts)(gap))) rightGaps++
      // Also one of before the recording began, or of after its end.
      else if (!world.fills(category, symbol, first * 60_000, (last + 1) * 60_000).every(isStored)) undecidable++
      else if ((last + 1) * 60_000 > judgedUntil) undecidable++
      else if ((await closedMinutes(pool, category, symbol, first, last)) < last - first + 1) undecidable++
      else
        wrong.push(
          `${category} ${symbol}: nothing was lost between ${new Date(gap.from).toISOString()} and ${new Date(gap.to).toISOString()}`,
        )
    }
  }
  return {
    lostFills,
    gaps: gapCount,
    recall: lostFills === 0 ? 1 : found / lostFills,
    precision: gapCount === 0 ? 1 : rightGaps / gapCount,
    undecidable,
    wrong,
    falseClaims,
  }
}
