import { type Kysely, type RawBuilder, sql } from 'kysely'
import { type Candle, type CandleSeries, filledBy, intervalMs, isSameSeries } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import { largest, type ServiceMs, smallest } from '../market/values.js'
import { columnNames, instant } from '../db/columns.js'
import { inTransaction } from '../db/database.js'
import { traitsOf } from '../db/databaseError.js'
import type { Database } from '../db/schema.js'
import { candleStream, ofCandles } from '../db/series.js'
import { inStatements, keyOrder, rowTable, type WriteResult } from '../db/writeRows.js'
import { callOfCandles, knownOf, multirangeText } from './verdicts.js'

export interface StoredCandles extends WriteResult {
  /** Number of candles that arrived in stretches that had been recorded as silent. */
  readonly lateCandles: number
}

/**
 * Stores candles of one series with what they prove: the ranges of closed candles, and the silence between them. All of
 * it is stored or nothing, so that no claim lacks its rows. It uses the transaction that `db` is in, or one of its own.
 *
 * @param silence ranges that responses left out, see `silenceBetween`
 * @param at service time of a live response; null for pages of the past
 * @param seenAt service time of the response in any case; null if it is the newest
 */
export async function storeCandles(
  db: Kysely<Database>,
  candles: readonly Candle[],
  silence: readonly TimeRange[] = [],
  at: ServiceMs | null = null,
  seenAt: ServiceMs | null = at,
): Promise<StoredCandles> {
  const [series] = candles
  if (series === undefined) return { inserted: 0, updated: 0, lateCandles: 0 }
  if (!candles.every((candle) => isSameSeries(series, candle))) throw new RangeError('candles of several series')
  const rangesOf = (some: readonly Candle[]) =>
    filledBy(
      some.map(({ openTime }) => openTime),
      intervalMs[series.interval],
    )
  const filled = rangesOf(candles.filter(({ isClosed }) => isClosed))
  const formed = rangesOf(candles.filter(({ isClosed, baseVolume }) => !isClosed && Number(baseVolume) > 0))
  if (candles.length < bulkRows) return storeAtOnce(db, series, candles, { filled, silence, at, seenAt, formed })
  return inTransaction(db, async (trx) => {
    const written = (await insertNewCandles(trx, series, candles)) ?? (await upsertCandles(trx, candles, at, seenAt))
    const claim = [filled, silence, at, seenAt, formed] as const
    return { lateCandles: await callOfCandles<number>(trx, 'claim_candles', series, ...claim), ...written }
  })
}

/** From this many rows on, inserting new candles in bulk is faster than looking each row up. */
const bulkRows = 700
const rowsPerInsert = 5_000

interface CandleClaim {
  readonly filled: readonly TimeRange[]
  readonly silence: readonly TimeRange[]
  readonly at: ServiceMs | null
  readonly seenAt: ServiceMs | null
  /** Of candles that are not closed and have a volume: something is traded there. */
  readonly formed: readonly TimeRange[]
}

/** Stores candles with their claim in one statement. A transaction has several, which take longer for a few rows. */
async function storeAtOnce(
  db: Kysely<Database>,
  { category, symbol, type, interval }: CandleSeries,
  candles: readonly Candle[],
  { filled, silence, at, seenAt, formed }: CandleClaim,
): Promise<StoredCandles> {
  // Writes rows before the claim, in the same order as a transaction. So two writers of a series cannot deadlock.
  const { rows } = await sql<StoredCandles>`
    with written as (${upsertOf(candles, at, seenAt)}), counted as materialized (
      select count(*) filter (where is_new) as inserted, count(*) filter (where not is_new) as updated from written)
    select inserted, updated, recorder.claim_candles(${category}, ${symbol}, ${type}, ${interval},
      ${multirangeText(filled)}, ${multirangeText(silence)}, ${instantOrNull(at)},
      ${instantOrNull(seenAt)}, ${multirangeText(formed)}) as "lateCandles" from counted`.execute(db)
  return rows[0] as StoredCandles
}

const { key, columns, source } = rowTable<Candle>(
  'market.candles',
  ['category', 'symbol', 'type', 'interval', 'open_time'],
  {
    category: 'category',
    symbol: 'text',
    type: 'candle_type',
    interval: 'candle_interval',
    openTime: 'time',
    open: 'decimal',
    high: 'decimal',
    low: 'decimal',
    close: 'decimal',
    baseVolume: 'decimal',
    quoteTurnover: 'decimal',
    isClosed: 'boolean',
  },
)
const values = columns.filter(({ name }) => !key.includes(name))
const assignments = sql.raw(values.map(({ name }) => `"${name}" = excluded."${name}"`).join(', '))

/**
 * Stores many new candles without handling conflicts, which would take longer than the rows. Resolves to null and
 * changes nothing if some are already stored, or if another writer was faster. Call it in a transaction.
 */
async function insertNewCandles(
  trx: Kysely<Database>,
  series: CandleSeries,
  candles: readonly Candle[],
): Promise<WriteResult | null> {
  const times = candles.map(({ openTime }) => openTime).toSorted((a, b) => a - b)
  if (times.some((time, index) => time === times[index - 1])) return null
  const known = await trx
    .selectFrom('market.candles')
    .select('open_time')
    .where(ofCandles(series))
    .where('open_time', '>=', instant(times[0] as ServiceMs))
    .where('open_time', '<=', instant(times.at(-1) as ServiceMs))
    // By its key. For any row of a series that is most of the table, the planner would read the table from its beginning.
    .orderBy('open_time')
    .limit(1)
    .executeTakeFirst()
  if (known !== undefined) return null
  await sql`savepoint new_candles`.execute(trx)
  let inserted = 0
  try {
    for (let start = 0; start < candles.length; start += rowsPerInsert) {
      const part = candles.slice(start, start + rowsPerInsert)
      const { numAffectedRows = 0n } = await sql`
        insert into market.candles (${columnNames(columns)})
        select ${columnNames(columns)} from ${source(part)} as incoming where ${isNotFinal(part)}`.execute(trx)
      inserted += Number(numAffectedRows)
    }
  } catch (error) {
    if (!traitsOf(error).isDuplicate) throw error
    await sql`rollback to savepoint new_candles`.execute(trx)
    return null
  }
  return { inserted, updated: 0 }
}

/**
 * Returns a condition for candles of one series that have not left for the archive. The ledger is asked once, and its
 * ranges are read only if a candle is older than their end.
 */
function isNotFinal(candles: readonly Candle[]): RawBuilder<boolean> {
  const [series] = candles as readonly [Candle]
  const oldest = instant(smallest(candles.map(({ openTime }) => openTime)))
  return sql`(
    select f.ranges from recorder.ledger f
    where ${knownOf(candleStream(series), 'final', 'f')} and f.part = '-infinity' and f.noted_at > ${oldest}
  ) @> open_time is not true`
}

/**
 * Stores candles of one series without a claim. Any candle overwrites a forming one, but only a closed candle replaces
 * a closed one. The database logs that change to recorder.candle_revision. If a candle occurs twice in a batch, the
 * closed one counts. A response may have waited, on a disk or for further pages. If it is older than the newest live one
 * of its series, it closes candles, but changes no others. A page of the past changes those that this one did not show.
 *
 * @param at service time of a live response; null for pages of the past
 * @param seenAt service time of the response in any case; null if it is the newest
 */
export async function upsertCandles(
  db: Kysely<Database>,
  candles: readonly Candle[],
  at: ServiceMs | null = null,
  seenAt: ServiceMs | null = at,
): Promise<WriteResult> {
  return inStatements(candles, async (part) => {
    const { rows } = await upsertOf(part, at, seenAt).execute(db)
    const inserted = rows.filter((row) => row.is_new).length
    return { inserted, updated: rows.length - inserted }
  })
}

function instantOrNull(at: ServiceMs | null): RawBuilder<ServiceMs | null> {
  return sql`${at === null ? null : new Date(at)}::timestamptz`
}

/**
 * Builds a statement that stores candles of one series. It returns a row with `is_new` for each inserted or updated
 * candle. Candles that are stored as they come are left out before the insert: in the columnstore, an insert decompresses
 * the batch around each row, also of a row that it leaves as it is.
 */
function upsertOf(
  candles: readonly Candle[],
  at: ServiceMs | null,
  seenAt: ServiceMs | null,
): RawBuilder<{ readonly is_new: boolean }> {
  const times = candles.map(({ openTime }) => openTime)
  // xmax is 0 in a row that this statement inserted.
  return sql`
    insert into market.candles as stored (${columnNames(columns)})
    select ${columnNames(columns)} from (
      select distinct on (${keyOrder(key)}) ${columnNames(columns)}
      from ${source(candles)} as page where ${isNotFinal(candles)}
      order by ${keyOrder(key)}, is_closed desc, ordinality desc
    ) as incoming
    -- A subquery in an expression is no join: it looks each candle up, however far apart they are.
    where not coalesce((
      select (${columnNames(columns, 'known')}) is not distinct from (${columnNames(columns, 'incoming')})
      from market.candles known
      where ${ofCandles(candles[0] as Candle, 'known')} and known.open_time = incoming.open_time
        and known.open_time >= ${instant(smallest(times))} and known.open_time <= ${instant(largest(times))}), false)
    order by ${keyOrder(key)}
    on conflict (${keyOrder(key)}) do update set ${assignments}
    where (excluded.is_closed or not stored.is_closed)
      and (not stored.is_closed and (excluded.is_closed or excluded.base_volume > stored.base_volume) or not exists (
        select from recorder.ledger k
        where (k.stream, k.category, k.symbol, k.type, k.interval)
            = ('candles', stored.category, stored.symbol, stored.type::text, stored.interval::text)
          and k.verdict = 'recorded' and k.part = '-infinity' and k.noted_at > ${instantOrNull(seenAt)}
          and (${at !== null} or k.asked_since <= stored.open_time)))
      and (${columnNames(values, 'stored')}) is distinct from (${columnNames(values, 'excluded')})
    returning stored.xmax = 0 as is_new`
}
