import { type Kysely, sql } from 'kysely'
import type { InstrumentKey, TradedCategory } from '../market/category.js'
import type { Fill } from '../market/rows.js'
import { type Ranges, subtract, type TimeRange } from '../market/timeRange.js'
import { minuteMs, type TimeMs } from '../market/values.js'
import { columnNames, toDate } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { keyOrder, rowTable } from '../db/writeRows.js'
import { gapRange, multirange } from './verdicts.js'

export type FillKey = InstrumentKey & { readonly category: TradedCategory }

/**
 * `other ids`: the history names stored fills otherwise. `other values`: it gives them another time, price, size or
 * side. `incomplete`: it lacks some of them.
 */
export type JoinRefusal = 'other ids' | 'other values' | 'incomplete'

export interface StoredPastFills {
  readonly inserted: number
  readonly refusal: JoinRefusal | null
  /** Wanted minutes that lack fills by their candle. They are not claimed. */
  readonly lacking: Ranges
}

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

const ofInstrument = ({ category, symbol }: FillKey, alias?: string) => {
  const column = (name: string) => sql.ref(alias === undefined ? name : `${alias}.${name}`)
  return sql`${column('category')} = ${category} and ${column('symbol')} = ${symbol}`
}
const recordedFills = (key: FillKey, alias: string) =>
  sql`${sql.ref(`${alias}.stream`)} = 'fills' and ${ofInstrument(key, alias)} and ${sql.ref(`${alias}.verdict`)} = 'recorded'`

/** A stored fill farther from a range than this counts only if everything between them is recorded. */
const near = sql`interval '10 minutes'`

/** Times of the stored fills next to a range; null on a side where other fills may lie between. */
export async function fillNeighbours(
  db: Kysely<Database>,
  key: FillKey,
  { from, to }: TimeRange,
): Promise<{ readonly above: TimeMs | null; readonly below: TimeMs | null }> {
  const [begin, end] = [sql`${toDate(from)}::timestamptz`, sql`${toDate(to)}::timestamptz`]
  const isRecorded = (between: ReturnType<typeof sql>) => sql`exists (
    select from recorder.known c where ${recordedFills(key, 'c')} and c.ranges @> ${between})`
  const { rows } = await sql<{ above: TimeMs | null; below: TimeMs | null }>`
    select
      case when a.ts <= ${end} + ${near} or ${isRecorded(sql`tstzrange(${end}, a.ts)`)} then a.ts end as above,
      case when b.ts >= ${begin} - ${near} or ${isRecorded(sql`tstzrange(b.ts, ${begin})`)} then b.ts end as below
    from (select) as one
    left join lateral (
      select ts from market.fills
      where ${ofInstrument(key)} and ts >= ${toDate(to - 1)}::timestamptz order by ts limit 1
    ) a on true
    left join lateral (
      select ts from market.fills where ${ofInstrument(key)} and ts < ${begin} order by ts desc limit 1
    ) b on true`.execute(db)
  return rows[0] ?? { above: null, below: null }
}

interface StoredFill extends Pick<Fill, 'execId' | 'ts' | 'side'> {
  readonly price: string
  readonly size: string
}

/**
 * Stores a page of a history of fills with its proof, if the stored fills of its time are all among its own. Otherwise
 * nothing changes. Minutes whose closed candle counts other fills are not claimed.
 *
 * @param covered the time of which the page shows everything
 * @param wanted parts of it to be claimed
 */
export async function storePastFills(
  db: Kysely<Database>,
  key: FillKey,
  covered: TimeRange,
  wanted: Ranges,
  fills: readonly Fill[],
  at: TimeMs,
): Promise<StoredPastFills> {
  const { category, symbol } = key
  const keys = sql`array[${category}]::market.category[], array[${symbol}]::text[]`
  return db.transaction().execute(async (trx) => {
    await sql`select recorder.lock_fills(${keys})`.execute(trx)
    const { rows: known } = await sql<StoredFill>`
      select exec_id as "execId", ts, side, price, size from market.fills
      where ${ofInstrument(key)} and ts >= ${toDate(covered.from)}::timestamptz
        and ts < ${toDate(covered.to)}::timestamptz`.execute(trx)
    const refusal = whyRefused(known, fills)
    if (refusal !== null) return { inserted: 0, refusal, lacking: [] }
    const knownIds = new Set(known.map(({ execId }) => execId))
    const fresh = fills.filter(({ execId }) => !knownIds.has(execId))
    if (fresh.length > 0) {
      await sql`
        insert into market.fills (${columnNames(table.columns)}, source)
        select ${columnNames(table.columns)}, 'history' from ${table.source(fresh)} as incoming
        order by ${keyOrder(table.key)} on conflict do nothing`.execute(trx)
    }
    const lacking = await minutesThatDiffer(trx, key, wanted)
    const proven = subtract(wanted, lacking)
    if (proven.length > 0) {
      const claim = multirange(proven)
      await sql`select recorder.claim_fills(${keys}, array[null]::timestamptz[], array[${claim}])`.execute(trx)
      await sql`
        select recorder.close_fill_gaps(${category}::market.category, ${symbol}, ${claim}, ${toDate(at)}::timestamptz, 'history')`.execute(
        trx,
      )
    }
    return { inserted: fresh.length, refusal: null, lacking }
  })
}

/** Compares stored fills with those that a history has of the same time. */
function whyRefused(known: readonly StoredFill[], fills: readonly Fill[]): JoinRefusal | null {
  const shown = new Map(fills.map((fill) => [fill.execId, fill]))
  const shared = known.filter(({ execId }) => shown.has(execId))
  const isOther = ({ execId, ts, side, price, size }: StoredFill) => {
    const fill = shown.get(execId)
    return (
      fill !== undefined &&
      (fill.ts !== ts || fill.side !== side || !isSame(fill.price, price) || !isSame(fill.size, size))
    )
  }
  if (shared.some(isOther)) return 'other values'
  if (shared.length === known.length) return null
  // A history that is late shows nothing as new as the stored fills.
  const times = fills.map(({ ts }) => ts)
  const [oldest, newest] = [Math.min(...times), Math.max(...times)]
  const isAmong = known.some(({ ts }) => ts >= oldest && ts <= newest)
  return shared.length === 0 && isAmong ? 'other ids' : 'incomplete'
}

/** Compares decimals whatever their trailing zeros. */
function isSame(a: string, b: string): boolean {
  const trimmed = (text: string) => (text.includes('.') ? text.replace(/\.?0+$/, '') : text)
  return trimmed(a) === trimmed(b)
}

/** Minutes that are recorded whole if the wanted ranges are, and whose closed candle has another volume than the fills. */
async function minutesThatDiffer(trx: Kysely<Database>, key: FillKey, wanted: Ranges): Promise<TimeRange[]> {
  const [first, last] = [wanted[0], wanted.at(-1)]
  if (first === undefined || last === undefined) return []
  // Fills of coin futures are sized in quote coin.
  const volume = sql.ref(key.category === 'COIN-FUTURES' ? 'c.quote_turnover' : 'c.base_volume')
  const [from, to] = [toDate(Math.floor(first.from / minuteMs) * minuteMs), toDate(last.to)]
  const minute = sql`tstzrange(c.open_time, c.open_time + interval '1 minute')`
  const { rows } = await sql<TimeRange>`
    with whole as materialized (
      select coalesce(range_agg(r), '{}') + ${multirange(wanted)} as ranges
      from recorder.known k cross join lateral unnest(k.ranges) as r
      where ${recordedFills(key, 'k')} and k.part < ${to}::timestamptz + interval '1 minute'
        and k.ranges && tstzrange(${from}::timestamptz, ${to}::timestamptz + interval '1 minute')
    )
    select c.open_time as "from", c.open_time + interval '1 minute' as "to"
    from market.candles c
    cross join whole
    cross join lateral (
      select coalesce(sum(size), 0) as size from market.fills f
      where ${ofInstrument(key, 'f')} and f.ts >= c.open_time and f.ts < c.open_time + interval '1 minute'
    ) as f
    where ${ofInstrument(key, 'c')} and c.type = 'market' and c.interval = '1m' and c.is_closed
      and c.open_time >= ${from}::timestamptz and c.open_time < ${to}::timestamptz
      and ${multirange(wanted)} && ${minute} and whole.ranges @> ${minute} and ${volume} <> f.size
    order by 1`.execute(trx)
  return rows
}

/** Notes why a range is not stored: as the reason of its gaps, or as a gap of its own. */
export async function explainFills(
  db: Kysely<Database>,
  { category, symbol }: FillKey,
  range: TimeRange,
  reason: string,
): Promise<void> {
  const ranges = multirange([range])
  const { numUpdatedRows } = await db
    .updateTable('recorder.known')
    .set({ reason })
    .where('stream', '=', 'fills')
    .where('category', '=', category)
    .where('symbol', '=', symbol)
    .where('verdict', 'in', ['missing', 'lost'])
    .where(sql<boolean>`ranges && ${ranges}`)
    .executeTakeFirst()
  if (numUpdatedRows > 0n) return
  await sql`select recorder.miss_fills(${category}::market.category, ${symbol}, ${ranges}, ${reason})`.execute(db)
}

/** A gap in fills, and how often it was wanted in vain. */
export interface FillGap extends FillKey {
  readonly id: number
  readonly notedAt: TimeMs
  readonly range: TimeRange
  readonly attempts: number
  /** When the last attempt ended; null while one is open. */
  readonly attemptedAt: TimeMs | null
}

/** Where a look through the gaps goes on: the gap that it ended with. */
export interface GapPlace {
  readonly notedAt: TimeMs
  readonly id: number
}

/** Open gaps that end after `since`, found at or before a place; the newest found first. */
export async function openFillGaps(
  db: Kysely<Database>,
  { since, before, limit }: { readonly since: TimeMs; readonly before: GapPlace; readonly limit: number },
): Promise<FillGap[]> {
  const { rows } = await sql<Omit<FillGap, 'range'> & TimeRange>`
    with due as materialized (
      select id, noted_at, category, symbol, ${gapRange()} as range from recorder.known
      where stream = 'fills' and verdict = 'missing' and symbol <> '*' and category <> 'MARGIN'
        and (noted_at, id) < (${toDate(before.notedAt)}::timestamptz, ${before.id})
        and gap_until > ${toDate(since)}::timestamptz
      order by noted_at desc, id desc limit ${limit}
    )
    select id, noted_at as "notedAt", category, symbol, lower(range) as "from", upper(range) as "to",
      coalesce(w.attempts, 0) as attempts, w.ended as "attemptedAt"
    from due cross join lateral (
      select count(*) as attempts, case when bool_and(ended_at is not null) then max(ended_at) end as ended
      from recorder.want w
      where w.stream = 'fills' and w.category = due.category and w.symbol = due.symbol and w.kind = 'repair'
        and w.ranges && due.range
    ) w order by "notedAt" desc, id desc`.execute(db)
  return rows.map(({ from, to, ...gap }) => ({ ...gap, range: { from, to } }))
}

/** The newest gap of a category that counts as lost and may not be; null if there is none. */
export async function lostFillGap(
  db: Kysely<Database>,
  categories: readonly TradedCategory[],
  since: TimeMs,
): Promise<(FillKey & { readonly range: TimeRange }) | null> {
  const { rows } = await sql<FillKey & TimeRange>`
    select category, symbol, part as "from", gap_until as "to" from recorder.known
    where stream = 'fills' and verdict = 'lost' and symbol <> '*' and category::text = any (${[...categories]}::text[])
      and gap_until > ${toDate(since)}::timestamptz
    order by noted_at desc, id desc limit 1`.execute(db)
  const [gap] = rows
  return gap === undefined
    ? null
    : { category: gap.category, symbol: gap.symbol, range: { from: gap.from, to: gap.to } }
}

/**
 * Turns open gaps into lost ones, or lost ones into open ones. A range that is in both already stays once.
 *
 * @param until only gaps that end before this time are lost
 * @param since only gaps that end after this time are opened
 */
export async function turnFillGaps(
  db: Kysely<Database>,
  categories: readonly TradedCategory[],
  turn: { readonly to: 'lost'; readonly until: TimeMs | null } | { readonly to: 'missing'; readonly since: TimeMs },
): Promise<void> {
  const [from, when] =
    turn.to === 'lost'
      ? ['missing', turn.until === null ? sql`true` : sql`gap_until <= ${toDate(turn.until)}::timestamptz`]
      : ['lost', sql`gap_until > ${toDate(turn.since)}::timestamptz`]
  await sql`
    with turned as (
      delete from recorder.known
      where stream = 'fills' and verdict = ${from} and symbol <> '*' and category::text = any (${[...categories]}::text[])
        and ${when}
      returning *
    )
    insert into recorder.known as k
      (stream, category, symbol, type, interval, verdict, part, ranges, reason, noted_at, settled_at, judged_at)
    select stream, category, symbol, type, interval, ${turn.to}, part, ranges, reason, noted_at,
      ${turn.to === 'lost' ? sql`now()` : sql`null`}, judged_at from turned
    on conflict (stream, category, symbol, type, interval, verdict, part) do update
      set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges`.execute(db)
}
