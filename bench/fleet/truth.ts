import type { ServedResponse } from '../../src/simulator/control.js'
import type { World } from '../../src/simulator/world/world.js'
import type { Category } from '../../src/market/category.js'
import type { RecorderDatabase } from '../../src/db/database.js'

export interface Asked {
  readonly atMs: number
  readonly source: string
}

/** The requests for the order book of each instrument, ascending by time. */
export function askedBooks(journal: readonly ServedResponse[]): Map<string, Asked[]> {
  const byKey = new Map<string, Asked[]>()
  for (const { atMs, source, operation, parameters } of journal) {
    if (operation !== 'orderbook') continue
    const key = `${parameters['category']} ${parameters['symbol']}`
    const asked = byKey.get(key)
    if (asked === undefined) byKey.set(key, [{ atMs, source }])
    else asked.push({ atMs, source })
  }
  for (const asked of byKey.values()) asked.sort((a, b) => a.atMs - b.atMs)
  return byKey
}

/**
 * The longest time for which two recorders asked for one instrument: from the first request of the second to the last
 * one of the first. A recorder that asks again within `idleMs` had it meanwhile, too, unless it was stopped in between.
 */
export function longestOverlapMs(
  books: ReadonlyMap<string, readonly Asked[]>,
  idleMs: number,
  stops: readonly Asked[] = [],
): number {
  let longest = 0
  for (const asked of books.values()) {
    const stretches: { readonly source: string; readonly from: number; to: number }[] = []
    for (const { atMs, source } of asked) {
      const last = stretches.findLast((stretch) => stretch.source === source)
      const wasStopped = stops.some(
        (stop) => stop.source === source && stop.atMs < atMs && stop.atMs >= (last?.to ?? 0),
      )
      if (last !== undefined && atMs - last.to <= idleMs && !wasStopped) last.to = atMs
      else stretches.push({ source, from: atMs, to: atMs })
    }
    for (const one of stretches)
      for (const other of stretches)
        if (one.source < other.source)
          longest = Math.max(longest, Math.min(one.to, other.to) - Math.max(one.from, other.from))
  }
  return longest
}

/** The longest time without a living owner of the order books whose owners went at a moment. */
export function longestWithoutOwnerMs(
  books: ReadonlyMap<string, readonly Asked[]>,
  gone: ReadonlySet<string>,
  atMs: number,
): { readonly longestMs: number; readonly count: number } {
  let longestMs = 0
  let count = 0
  for (const asked of books.values()) {
    const last = asked.findLast((before) => before.atMs <= atMs)
    if (last === undefined || !gone.has(last.source)) continue
    count++
    const next = asked.find((after) => after.atMs > atMs && !gone.has(after.source))
    longestMs = Math.max(longestMs, (next?.atMs ?? Infinity) - atMs)
  }
  return { longestMs, count }
}

export interface FillTruth {
  readonly stored: number
  readonly lost: number
  /** Lost fills that a delivered response had shown: no schedule can have lost them. */
  readonly shown: number
  /** Lost fills outside every recorded gap. */
  readonly unnamed: number
  readonly gaps: number
  /** Gaps in which nothing was lost, of those that candles could have told. */
  readonly wrongGaps: number
  /** Lost fills inside what is claimed to be complete. */
  readonly falseClaims: number
}

/** Compares stored fills and gaps with what happened between the first and the last stored fill of each instrument. */
export async function fillTruth(
  { pool }: RecorderDatabase,
  world: World,
  journal: readonly ServedResponse[],
  judgedUntil: number,
): Promise<FillTruth> {
  const delivered = journal.filter(({ operation, delivered: how }) => operation === 'fills' && how === 'complete')
  const seen = new Set(delivered.flatMap(({ data }) => shownIds(data)))
  const { rows: instruments } = await pool.query<{
    category: Category
    symbol: string
    ids: string[]
    first: number
    last: number
  }>(
    `select category, symbol, array_agg(exec_id) as ids, (extract(epoch from min(ts)) * 1000)::float8 as first,
       (extract(epoch from max(ts)) * 1000)::float8 as last from market.fills group by category, symbol`,
  )
  const bounds = (ranges: string) =>
    `(extract(epoch from lower(${ranges})) * 1000)::float8 as "from", (extract(epoch from upper(${ranges})) * 1000)::float8 as "to"`
  const truth = { stored: 0, lost: 0, shown: 0, unnamed: 0, gaps: 0, wrongGaps: 0, falseClaims: 0 }
  for (const { category, symbol, ids, first, last } of instruments) {
    const key = [category, symbol]
    type Range = { readonly from: number; readonly to: number }
    const { rows: gaps } = await pool.query<Range>(
      `select ${bounds('range')} from recorder_page.gap where stream = 'fills' and category = $1 and symbol = $2 and state <> 'repaired'`,
      key,
    )
    const { rows: covered } = await pool.query<Range>(
      `select ${bounds('r')} from recorder_page.coverage, unnest(ranges) r where stream = 'fills' and category = $1 and symbol = $2`,
      key,
    )
    const known = new Set(ids)
    const happened = world.fills(category, symbol, first, last + 1)
    const isStored = ({ execId }: { readonly execId: string }) => known.has(execId)
    const lostFills = happened
      .slice(happened.findIndex(isStored), happened.findLastIndex(isStored))
      .filter((fill) => !isStored(fill))
    const lost = lostFills.map(({ ts }) => Number(ts))
    truth.shown += lostFills.filter(({ execId }) => seen.has(execId)).length
    const isIn = (ts: number) => (range: Range) => range.from <= ts && ts < range.to
    truth.stored += ids.length
    truth.lost += lost.length
    truth.gaps += gaps.length
    truth.unnamed += lost.filter((ts) => !gaps.some(isIn(ts))).length
    truth.falseClaims += lost.filter((ts) => covered.some(isIn(ts))).length
    const minuteOf = (ts: number) => Math.floor(ts / 60_000)
    truth.wrongGaps += gaps.filter(
      (gap) =>
        (minuteOf(gap.to) + 1) * 60_000 <= judgedUntil &&
        !lost.some((ts) => minuteOf(ts) >= minuteOf(gap.from) && minuteOf(ts) <= minuteOf(gap.to - 1)),
    ).length
  }
  return truth
}

/** Ids in what an operation gave, wherever the rows are in it. */
function shownIds(data: unknown): string[] {
  if (Array.isArray(data)) return data.flatMap(shownIds)
  if (typeof data !== 'object' || data === null) return []
  const id = (data as { readonly execId?: unknown }).execId
  return typeof id === 'string' ? [id] : Object.values(data).flatMap(shownIds)
}
