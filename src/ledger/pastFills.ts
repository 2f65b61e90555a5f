import { type Kysely, sql } from 'kysely'
import type { InstrumentKey, TradedCategory } from '../market/category.js'
import type { Fill } from '../market/fill.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { columnNames, toDate } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { keyOrder, rowTable } from '../db/writeRows.js'
import { gapRange, multirange } from './verdicts.js'

export interface FillGap extends InstrumentKey {
  readonly category: TradedCategory
  readonly id: number
  readonly notedAt: TimeMs
  readonly range: TimeRange
}

/** Stored fills on both sides of a gap, with which a history must agree before it is believed. */
interface Neighbours {
  readonly before: readonly StoredFill[]
  readonly after: readonly StoredFill[]
}

interface StoredFill {
  readonly execId: string
  readonly ts: TimeMs
}

/**
 * `other ids`: the history names stored fills otherwise. `other times`: it gives them other times, such as whole seconds. `incomplete`: it
 * lacks some of them, or some of the volume of a minute's candle.
 */
export type JoinOutcome = 'filled' | 'other ids' | 'other times' | 'incomplete'

const table = rowTable<Fill>('market.fills', ['category', 'symbol', 'ts', 'exec_id'], {
  category: 'category',
  symbol: 'text',
  ts: 'time',
  execId: 'text',
  execLinkId: 'text',
  side: 'side',
  price: 'decimal',
  size: 'decimal',
  isRpi: 'boolean',
  receivedAt: 'time',
  extra: 'json',
})

/** Number of stored fills compared on each side of a gap, to see whether their ids are the same. */
const neighbourCount = 5

/** Where a look through the gaps goes on: the gap that it ended with. */
export interface GapPlace {
  readonly notedAt: TimeMs
  readonly id: number
}

/** Gaps in fills that end after `since`, found at or before a place; the newest found first. */
export async function fillGaps(
  db: Kysely<Database>,
  { since, before, limit }: { readonly since: TimeMs; readonly before: GapPlace; readonly limit: number },
): Promise<FillGap[]> {
  const { rows } = await sql<GapPlace & TimeRange & Pick<FillGap, 'category' | 'symbol'>>`
    select id, noted_at as "notedAt", category, symbol, lower(${gapRange()}) as "from", upper(${gapRange()}) as "to"
    from recorder.known
    where stream = 'fills' and verdict in ('missing', 'lost') and symbol <> '*' and category <> 'MARGIN'
      and (noted_at, id) < (${toDate(before.notedAt)}::timestamptz, ${before.id}) and gap_until > ${toDate(since)}::timestamptz
    order by noted_at desc, id desc limit ${limit}`.execute(db)
  return rows.map(({ from, to, ...gap }) => ({ ...gap, range: { from, to } }))
}

/** The stored fills next to a gap, its ends included: a gap begins and ends with a millisecond that may be cut. */
export async function neighboursOf(db: Kysely<Database>, { category, symbol, range }: FillGap): Promise<Neighbours> {
  const side = async (condition: ReturnType<typeof sql>) => {
    const { rows } = await sql<StoredFill>`
      select exec_id as "execId", ts from market.fills
      where category = ${category} and symbol = ${symbol} and ${condition} limit ${neighbourCount}`.execute(db)
    return rows
  }
  return {
    before: await side(sql`ts <= ${toDate(range.from)}::timestamptz order by ts desc, exec_id desc`),
    after: await side(sql`ts >= ${toDate(range.to - 1)}::timestamptz order by ts, exec_id`),
  }
}

/**
 * Stores what a history has of a gap, with the proof, if it agrees with what is stored: the stored fills of the time that it covers
 * are all among its own, and no minute of the gap differs from its closed candle. Otherwise nothing changes.
 *
 * @param covered the time of which the history was asked for in full; it reaches beyond both ends of the gap
 */
export async function storePastFills(
  db: Kysely<Database>,
  gap: FillGap,
  covered: TimeRange,
  fills: readonly Fill[],
  at: TimeMs,
): Promise<JoinOutcome> {
  const { category, symbol, range } = gap
  const claim = sql`array[${multirange([range])}]`
  const key = sql`array[${category}]::market.category[], array[${symbol}]::text[]`
  try {
    return await db.transaction().execute(async (trx): Promise<JoinOutcome> => {
      await sql`select recorder.lock_fills(${key})`.execute(trx)
      const { rows: known } = await sql<StoredFill>`
        select exec_id as "execId", ts from market.fills
        where category = ${category} and symbol = ${symbol}
          and ts between ${toDate(covered.from)}::timestamptz and ${toDate(covered.to)}::timestamptz`.execute(trx)
      const times = new Map(fills.map(({ execId, ts }) => [execId, ts]))
      const shared = known.filter(({ execId }) => times.has(execId))
      const isBefore = ({ ts }: StoredFill) => ts <= range.from
      if (shared.length === 0) throw new Refused('other ids')
      if (shared.some(({ execId, ts }) => times.get(execId) !== ts)) throw new Refused('other times')
      const joinsBoth = shared.some(isBefore) && shared.some(({ ts }) => ts >= range.to - 1)
      if (shared.length < known.length || !joinsBoth) throw new Refused('incomplete')
      const within = fills.filter(({ ts }) => ts >= covered.from && ts <= covered.to)
      await sql`
        insert into market.fills (${columnNames(table.columns)})
        select ${columnNames(table.columns)} from ${table.source(within)} as incoming
        order by ${keyOrder(table.key)} on conflict do nothing`.execute(trx)
      await sql`select recorder.claim_fills(${key}, array[null]::timestamptz[], ${claim})`.execute(trx)
      if (await differsFromCandles(trx, gap)) throw new Refused('incomplete')
      await sql`
        select recorder.close_fill_gaps(${category}::market.category, ${symbol}, ${multirange([range])}, ${toDate(at)}::timestamptz)`.execute(
        trx,
      )
      return 'filled'
    })
  } catch (error) {
    if (error instanceof Refused) return error.outcome
    throw error
  }
}

/** Thrown to roll the transaction back. */
class Refused extends Error {
  constructor(readonly outcome: JoinOutcome) {
    super(outcome)
  }
}

/** Returns true if the closed candle of a proven minute of the gap has another volume than the stored fills. */
async function differsFromCandles(trx: Kysely<Database>, { category, symbol, range }: FillGap): Promise<boolean> {
  // Fills of coin futures are sized in quote coin.
  const volume = sql.ref(category === 'COIN-FUTURES' ? 'c.quote_turnover' : 'c.base_volume')
  const { rows } = await sql`
    select from market.candles c
    cross join lateral (
      select coalesce(sum(size), 0) as size from market.fills f
      where f.category = c.category and f.symbol = c.symbol
        and f.ts >= c.open_time and f.ts < c.open_time + interval '1 minute'
    ) as f
    where c.category = ${category} and c.symbol = ${symbol} and c.type = 'market' and c.interval = '1m' and c.is_closed
      and c.open_time > ${toDate(range.from)}::timestamptz - interval '1 minute' and c.open_time < ${toDate(range.to)}::timestamptz
      and ${volume} <> f.size
      and exists (
        select from market.coverage v
        where v.stream = 'fills' and v.category = c.category and v.symbol = c.symbol
          and v.from_time <= c.open_time and v.to_time >= c.open_time + interval '1 minute')
    limit 1`.execute(trx)
  return rows.length > 0
}

/** Says of a gap why it is still there. */
export async function explainFillGap(db: Kysely<Database>, { id }: FillGap, reason: string): Promise<void> {
  await db.updateTable('recorder.known').set({ reason }).where('id', '=', id).execute()
}
