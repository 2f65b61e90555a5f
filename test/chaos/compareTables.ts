import type pg from 'pg'
import { closeTime, type Interval } from '../../src/market/candle.js'
import { liquidationPageRows } from '../../src/market/funding.js'
import type { ServedResponse } from '../../src/simulator/control.js'
import { keyColumns, type RecordedTable, servedTruth, type TruthRow } from '../support/servedTruth.js'
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
  /** Violations, one line each. */
  readonly wrong: readonly string[]
}

/** An answer that came so shortly before a kill may not have been durable yet: the database has 2 s for it, then it goes to the disk. */
const notYetDurableMs = 2_500
/** The end of those 2 s, a write and a sync are each as late as a busy machine has them. */
const slowSteps = 3
/** Number of missing rows of a table whose surroundings are described. */
const maxExplained = 5

/**
 * Responses without those of the past, which are stored once they join what is stored, or are asked for again: a recorder
 * that ends meanwhile drops them. Every request of a walk into the past names its page, except those for the newest
 * liquidations: of them, one with another limit than the live ones is of a walk, as is one whose cursor is used.
 */
function withoutPast(responses: readonly ServedResponse[]): ServedResponse[] {
  const cursors = new Set(responses.map(({ parameters }) => parameters['cursor']))
  return responses.filter(({ operation, parameters, data }) => {
    const { cursor } = (data ?? {}) as { readonly cursor?: string }
    const beginsWalk = cursor !== undefined && cursors.has(cursor)
    const isOfWalk = operation === 'liquidations' && Number(parameters['limit']) !== liquidationPageRows
    return !operation.endsWith('-fills-history') && parameters['cursor'] === undefined && !beginsWalk && !isOfWalk
  })
}

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

/** Returns the time at which the candle of this key closes. */
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
