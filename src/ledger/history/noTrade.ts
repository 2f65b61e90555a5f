import { type Kysely, type RawBuilder, sql } from 'kysely'
import { type CandleSeries, intervalMs } from '../../market/candle.js'
import type { TimeRange } from '../../market/timeRange.js'
import type { TimeMs } from '../../market/values.js'
import { addCoverage, multirange, rangesAsJson, toRanges } from '../proof/coverage.js'
import { toDate } from '../../db/columns.js'
import type { Database } from '../../db/schema.js'
import { candleStream, ofCandles, ofSeries } from '../../db/series.js'

/** Places of candles in a part of the ledger. */
const placesPerPart = 1_440

/**
 * Claims that nothing was traded in these ranges, as far as no candle of them is known. Call it in the transaction that stores
 * the response, after the coverage of its candles was added: that makes other writers of the series wait.
 */
export async function addNoTrade(
  db: Kysely<Database>,
  series: CandleSeries,
  silence: readonly TimeRange[],
): Promise<void> {
  if (silence.length === 0) return
  const { category, symbol, type, interval } = series
  const partLength = sql`make_interval(secs => ${(placesPerPart * intervalMs[interval]) / 1000})`
  await sql`
    insert into recorder.no_trade as n (category, symbol, type, interval, part, ranges)
    select ${category}, ${symbol}, ${type}, ${interval},
      date_bin(${partLength}, lower(r), timestamptz 'epoch') as part, range_agg(r)
    from unnest(${multirange(silence)} - coalesce((
      select ranges from recorder.coverage where ${ofSeries(candleStream(series))}), '{}')) as r
    group by part
    on conflict (category, symbol, type, interval, part) do update
      set ranges = n.ranges + excluded.ranges, noted_at = now()
      where not n.ranges @> excluded.ranges`.execute(db)
  await addCoverage(db, candleStream(series), silence)
}

/**
 * Takes back that nothing was traded where candles have come after all, and notes these as gaps that are repaired: nobody knew
 * of them before. Resolves to how many candles those are.
 */
export async function takeBackNoTrade(
  db: Kysely<Database>,
  series: CandleSeries,
  filled: readonly TimeRange[],
): Promise<number> {
  if (filled.length === 0) return 0
  const { rows } = await sql<{ count: number }>`
    with ${takingBack(series, filled)}
    select ${turnedUp} as count`.execute(db)
  return rows[0]?.count ?? 0
}

/** How many candles a statement with `takingBack` has found. */
export const turnedUp = sql`(select coalesce(sum(count), 0)::bigint from counted)`

/** The parts of a statement that do so. `filled` holds at least one range. */
export function takingBack(series: CandleSeries, filled: readonly TimeRange[]): RawBuilder<unknown> {
  const [first] = filled
  const last = filled.at(-1)
  if (first === undefined || last === undefined) throw new RangeError('no candle, nothing to take back')
  const candles = multirange(filled)
  const { category, symbol, type, interval } = series
  return sql`
    touched as (
      select n.part, n.ranges * ${candles} as late
      from recorder.no_trade n
      where ${ofCandles(series)} and part < ${toDate(last.to)}::timestamptz and until > ${toDate(first.from)}::timestamptz
        and ranges && ${candles}
    ), counted as (
      select part, range, round(extract(epoch from upper(range) - lower(range)) * 1000 / ${intervalMs[interval]}) as count
      from touched cross join lateral unnest(late) as range
    ), corrected as (
      update recorder.no_trade n set ranges = n.ranges - ${candles}, confirmed = n.confirmed - ${candles},
        turned_up = n.turned_up + (select sum(count) from counted where counted.part = n.part)
      from touched where ${ofCandles(series, 'n')} and n.part = touched.part
    ), noted as (
      insert into recorder.gap (stream, category, symbol, type, interval, range, reason, state, detected_at, repaired_at)
      select 'candles', ${category}, ${symbol}, ${type}, ${interval}, range,
        'the service left these candles out at first, as if nothing had been traded, and gave them later',
        'repaired', now(), now()
      from counted
      on conflict (stream, category, symbol, type, interval, range) do nothing
    )`
}

/** From this share of a series' known time on without a trade, one more silent stretch is nothing out of the ordinary. */
const sparseShare = 0.05

/** Whether a series is known to have no trade for long: or not known at all, so that its silence says nothing. */
export async function isSparse(db: Kysely<Database>, series: CandleSeries): Promise<boolean> {
  const length = (ranges: ReturnType<typeof sql>) => sql`
    (select sum(extract(epoch from upper(r) - lower(r))) from unnest(${ranges}) as r)`
  const { rows } = await sql<{ isSparse: boolean }>`
    select coalesce((
      select sum(${length(sql`ranges`)}) from recorder.no_trade where ${ofCandles(series)}
    ), 0) >= ${sparseShare} * coalesce(${length(sql`
      (select ranges from recorder.coverage where ${ofSeries(candleStream(series))})`)}, 0) as "isSparse"`.execute(db)
  return rows[0]?.isSparse ?? true
}

/**
 * Remembers what of these ranges was asked for without a response that says anything, instead of what was remembered of it; what
 * is kept stays as it is.
 */
export async function replaceUnanswered(
  db: Kysely<Database>,
  series: CandleSeries,
  asked: readonly TimeRange[],
  { fresh, kept = [] }: { readonly fresh: readonly TimeRange[]; readonly kept?: readonly TimeRange[] },
): Promise<void> {
  const { category, symbol, type, interval } = series
  const ranges = multirange(fresh)
  if (fresh.length > 0)
    await sql`
    insert into recorder.unanswered (category, symbol, type, interval, range, asked_at, times)
    select ${category}, ${symbol}, ${type}, ${interval}, r, now(),
      1 + coalesce((select max(times) from recorder.unanswered u where ${ofCandles(series, 'u')} and u.range && r), 0)
    from unnest(${ranges}) as r
    on conflict (category, symbol, type, interval, range) do update
      set asked_at = excluded.asked_at, times = excluded.times`.execute(db)
  await sql`
    delete from recorder.unanswered
    where ${ofCandles(series)} and range && ${multirange(asked)}
      and range <> all (array(select unnest(${ranges}) union all select unnest(${multirange(kept)})))`.execute(db)
}

export interface Unanswered extends TimeRange {
  readonly askedAt: TimeMs
}

/** What was asked for without a response that says anything, of the ranges that touch `ranges`; ascending. */
export async function unansweredRanges(
  db: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
): Promise<Unanswered[]> {
  const { rows } = await sql<Unanswered>`
    select lower(range) as "from", upper(range) as "to", asked_at as "askedAt" from recorder.unanswered
    where ${ofCandles(series)} and range && ${multirange(ranges)} order by 1`.execute(db)
  return rows
}

/** What was asked for once, before `before`, and not again since; the longest ago first. */
export async function askedOnce(
  db: Kysely<Database>,
  { before, limit }: { readonly before: TimeMs; readonly limit: number },
): Promise<{ readonly series: CandleSeries; readonly range: TimeRange }[]> {
  const { rows } = await sql<CandleSeries & TimeRange>`
    select category, symbol, type, interval, lower(range) as "from", upper(range) as "to" from recorder.unanswered
    where times = 1 and asked_at < ${toDate(before)}::timestamptz order by asked_at limit ${limit}`.execute(db)
  return rows.map(({ from, to, ...series }) => ({ series, range: { from, to } }))
}

/** Whether some of the ranges was asked for in vain before. */
export async function isUnanswered(
  db: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
): Promise<boolean> {
  const { rows } = await sql`
    select from recorder.unanswered where ${ofCandles(series)} and range && ${multirange(ranges)} limit 1`.execute(db)
  return rows.length > 0
}

/** Whether what was asked for in vain, named `u`, need not be asked for again yet: an hour later, then four, up to a day. */
export const isAskedLately = sql`u.asked_at + least(interval '1 hour' * power(4, least(u.times, 10) - 1), interval '1 day') > now()`

/** Parts of the ledger that nobody has looked at again, and that were last added to before `before`; oldest first. */
export async function unconfirmedParts(
  db: Kysely<Database>,
  { before, limit }: { readonly before: TimeMs; readonly limit: number },
): Promise<{ readonly series: CandleSeries; readonly silent: readonly TimeRange[] }[]> {
  const { rows } = await sql<CandleSeries & { ranges: [TimeMs, TimeMs][] }>`
    select category, symbol, type, interval, ${rangesAsJson(sql`ranges - confirmed`)} as ranges
    from recorder.no_trade
    where ranges <> confirmed and noted_at < ${toDate(before)}::timestamptz
    order by noted_at limit ${limit}`.execute(db)
  return rows.map(({ ranges, ...series }) => ({ series, silent: toRanges(ranges) }))
}

/** Notes that these ranges were looked at once more: what of them still has no trade is confirmed. */
export async function confirmNoTrade(
  db: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
): Promise<void> {
  const seen = multirange(ranges)
  await sql`
    update recorder.no_trade set confirmed = confirmed + (ranges * ${seen})
    where ${ofCandles(series)} and ranges && ${seen} and not confirmed @> (ranges * ${seen})`.execute(db)
}

/** Puts off the next look at the silence in ranges that were just looked at, whatever came of it. */
export async function putOffLook(
  db: Kysely<Database>,
  series: CandleSeries,
  asked: readonly TimeRange[],
): Promise<void> {
  await sql`
    update recorder.no_trade set noted_at = now()
    where ${ofCandles(series)} and ranges && ${multirange(asked)} and ranges <> confirmed`.execute(db)
}
