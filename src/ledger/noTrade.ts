import { type Kysely, sql } from 'kysely'
import type { CandleSeries } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { instant } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { candlesOf, candleStream, ofSeries, seriesOf } from '../db/series.js'
import { callOfCandles, is, knownOf, multirange, rangesAsJson, toRanges } from './verdicts.js'

/** Share of known time without trades from which a series counts as sparse. More silence is then nothing unusual. */
export const sparseShare = 0.05

/**
 * Returns true if `sparseShare` or more of the known time of a series had no trade. Returns true also for a series that
 * is not known at all. More silence of such a series shows nothing.
 */
export async function isSparse(db: Kysely<Database>, series: CandleSeries): Promise<boolean> {
  const { rows } = await sql<{ isSparse: boolean }>`
    select coalesce(sum(length) filter (where verdict <> 'recorded'), 0)
      >= ${sparseShare} * coalesce(sum(length) filter (where verdict = 'recorded'), 0) as "isSparse"
    from (
      select verdict, extract(epoch from upper(r) - lower(r)) as length
      from recorder.known cross join lateral unnest(ranges) as r
      where ${ofSeries(candleStream(series))} and verdict in ('recorded', 'silent', 'no trade')
    ) as known`.execute(db)
  return rows[0]?.isSparse ?? true
}

/**
 * Records the parts of the `asked` ranges that got no usable response, in place of the earlier records. Records of
 * `kept` ranges stay unchanged.
 */
export async function replaceUnanswered(
  db: Kysely<Database>,
  series: CandleSeries,
  asked: readonly TimeRange[],
  { fresh, kept = [] }: { readonly fresh: readonly TimeRange[]; readonly kept?: readonly TimeRange[] },
): Promise<void> {
  await callOfCandles(db, 'replace_unanswered', series, asked, fresh, kept)
}

interface Unanswered extends TimeRange {
  readonly askedAt: TimeMs
}

/** Reads ranges that touch `ranges` and were requested without a usable response, ascending. */
export async function unansweredRanges(
  db: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
): Promise<Unanswered[]> {
  return db
    .selectFrom('recorder.known')
    .select(({ fn }) => ['part as from', fn<TimeMs>('upper', ['ranges']).as('to'), 'noted_at as askedAt'])
    .where(knownOf(candleStream(series), 'unanswered'))
    .where('ranges', '&&', multirange(ranges))
    .orderBy('part')
    .execute()
}

/**
 * Reads ranges that were requested once in vain, before `before`, and not again since. The earliest request comes
 * first.
 */
export async function askedOnce(
  db: Kysely<Database>,
  { before, limit }: { readonly before: TimeMs; readonly limit: number },
): Promise<{ readonly series: CandleSeries; readonly range: TimeRange }[]> {
  const rows = await db
    .selectFrom('recorder.known')
    .select(['stream', 'category', 'symbol', 'type', 'interval', 'part as from'])
    .select(({ fn }) => fn<TimeMs>('upper', ['ranges']).as('to'))
    .where(is('unanswered'))
    .where('times', '=', 1)
    .where('noted_at', '<', instant(before))
    .orderBy('noted_at')
    .limit(limit)
    .execute()
  return rows.flatMap(({ from, to, ...columns }) => {
    const series = candlesOf(seriesOf(columns))
    return series === null ? [] : [{ series, range: { from, to } }]
  })
}

/** Reads parts with unconfirmed silence that last grew before `before`, oldest first. */
export async function unconfirmedParts(
  db: Kysely<Database>,
  { before, limit }: { readonly before: TimeMs; readonly limit: number },
): Promise<{ readonly series: CandleSeries; readonly silent: readonly TimeRange[] }[]> {
  const rows = await db
    .selectFrom('recorder.known')
    .select(['stream', 'category', 'symbol', 'type', 'interval'])
    .select(rangesAsJson('ranges').as('silent'))
    .where(is('silent'))
    .where(({ fn, not }) => not(fn<boolean>('isempty', ['ranges'])))
    .where('noted_at', '<', instant(before))
    .orderBy('noted_at')
    .limit(limit)
    .execute()
  return rows.flatMap(({ silent, ...columns }) => {
    const series = candlesOf(seriesOf(columns))
    return series === null ? [] : [{ series, silent: toRanges(silent) }]
  })
}

/** Notes a second look at ranges. Their parts that still have no trade are confirmed. */
export async function confirmNoTrade(
  db: Kysely<Database>,
  series: CandleSeries,
  ranges: readonly TimeRange[],
): Promise<void> {
  await callOfCandles(db, 'confirm_no_trade', series, ranges)
}

/** Delays the next look at the silence in ranges that were just requested, whatever the result. */
export async function putOffLook(
  db: Kysely<Database>,
  series: CandleSeries,
  asked: readonly TimeRange[],
): Promise<void> {
  await db
    .updateTable('recorder.known')
    .set(({ fn }) => ({ noted_at: fn('now') }))
    .where(knownOf(candleStream(series), 'silent'))
    .where('ranges', '&&', multirange(asked))
    .execute()
}
