import type { Kysely } from 'kysely'
import { type CandleSeries, intervalMs } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import { addMs, dayMs, hourMs, laterOf, type ServiceMs } from '../market/values.js'
import { countOpenWants, insertWants, type NewWant } from '../ledger/wants.js'
import type { Fraction } from '../ledger/commonFactor.js'
import {
  askedOnce,
  type DueReview,
  dueReviews,
  freshSeries,
  seriesToReadAgain,
  unconfirmedParts,
} from '../ledger/reviews.js'
import type { Database } from '../db/schema.js'
import { candleStream } from '../db/series.js'

/** How often the newest one-minute candles of each series are read again. A page holds more than this time. */
const minutesEveryMs = 12 * hourMs
/** How often a stretch of each series is read again. */
const seriesEveryMs = 7 * dayMs
/** The shortest time between two looks that prove emptiness. A few seconds of empty responses prove nothing. */
export const confirmEmptyAfterMs = hourMs
/** Number of candles in a stretch: a page of `candles`. It spans years of 1D candles, or 17 hours of 1m candles. */
const stretchCandles = 1_000
/** The limit of each search for due reviews. No review is added while this many are open. */
const maxAtOnce = 200
/** Silences at most this many candles apart are read in one stretch. */
const nearCandles = 100

/**
 * Reads parts of the past again, with the budget that all other requests leave:
 *
 * - Ranges that were silent or empty in one look: after an hour.
 * - Each silence between two candles: once, a day after the last silence of its part of the ledger was noted.
 * - The newest one-minute candles of each series: every twelve hours, because late trades change closed candles.
 * - A stretch of each series: once a week, from its newest candles to its oldest, then from the newest again. When an
 *   instrument is listed again, the next stretch is read at once.
 *
 * Adds wants for the reviews that are due. Resolves to the ids of the wants.
 */
export async function reviewOnce(db: Kysely<Database>, now: ServiceMs): Promise<number[]> {
  if ((await countOpenWants(db, 'review')) >= maxAtOnce) return []
  const silent = await unconfirmedParts(db, { now, limit: maxAtOnce })
  const once = await askedOnce(db, { before: addMs(now, -confirmEmptyAfterMs), limit: maxAtOnce })
  const due = await dueReviews(db, { before: addMs(now, -seriesEveryMs), limit: maxAtOnce })
  const looks = silent.flatMap(({ series, silent: ranges }) => {
    return stretchesOf(series, ranges).map((range) => readAgain(series, range))
  })
  const fresh = await freshSeries(db, {
    since: addMs(now, -hourMs),
    before: addMs(now, -minutesEveryMs),
    limit: maxAtOnce,
  })
  const newest = fresh.map(({ series, range }) => {
    const from = laterOf(range.from, addMs(range.to, -stretchCandles * intervalMs[series.interval]))
    return readAgain(series, { from, to: range.to })
  })
  const secondLooks = once.map(({ series, range }) => ({ ...readAgain(series, range), again: false }))
  return insertWants(db, [...secondLooks, ...looks, ...newest, ...due.map((review) => nextStretch(review))])
}

/** Has the whole past of an instrument read again, because the service has rewritten one of its series. */
export async function readAllAgain(db: Kysely<Database>, series: CandleSeries, restatedBy: Fraction): Promise<void> {
  const found = await seriesToReadAgain(db, series, restatedBy)
  await insertWants(
    db,
    found.map(({ series: other, range }) => readAgain(other, range)),
  )
}

/** Returns stretches that hold the silent ranges, each with the candles at its ends. */
function stretchesOf(series: CandleSeries, silent: readonly TimeRange[]): TimeRange[] {
  const lengthMs = intervalMs[series.interval]
  const stretches: { from: ServiceMs; to: ServiceMs }[] = []
  for (const { from, to } of silent) {
    const last = stretches.at(-1)
    if (last !== undefined && from - last.to <= nearCandles * lengthMs) last.to = addMs(to, lengthMs)
    else stretches.push({ from: addMs(from, -lengthMs), to: addMs(to, lengthMs) })
  }
  return stretches
}

function nextStretch({ series, range, nextTo, relistedAt }: DueReview): NewWant {
  const stretchMs = stretchCandles * intervalMs[series.interval]
  // The service may have adjusted the candles before a new listing.
  const wanted = relistedAt ?? nextTo ?? range.to
  const to = wanted > range.from && wanted <= range.to ? wanted : range.to
  const from = laterOf(range.from, addMs(to, -stretchMs))
  return { ...readAgain(series, { from, to }), nextTo: from > range.from ? from : range.to }
}

function readAgain(series: CandleSeries, range: TimeRange): NewWant {
  const what = { kind: 'review', again: true, isUrgent: false, hasOpenBeginning: false } as const
  return { ...what, series: candleStream(series), ranges: [range], floor: range.from }
}
