import type { Kysely } from 'kysely'
import { type Candle, intervalMs, silenceBetween } from '../market/candle.js'
import type { FutureKey } from '../market/category.js'
import type { FundingRate, Liquidation } from '../market/funding.js'
import type { RpiSymbol } from '../market/rows.js'
import type { Instrument } from '../market/instrument.js'
import type { MomentStream, RowOf, StreamName, VersionStream } from '../market/stream.js'
import type { TimeRange } from '../market/timeRange.js'
import { addMs, secondMs } from '../market/values.js'
import type { Database } from '../db/schema.js'
import { callFunction } from '../db/database.js'
import { appendRows, type WriteResult } from '../db/writeRows.js'
import { missEvents, provenByBatch, storeFundingRates, storeLiquidations, withdrawUnread } from './futures.js'
import { recordInstruments, recordRpiSymbols } from './instruments.js'
import {
  type Batch,
  type CandleTarget,
  type CategoryTarget,
  type FuturesTarget,
  isWholeList,
  missingRows,
  unreadTimes,
} from './batch.js'
import { storeCandles, type StoredCandles } from './storeCandles.js'
import { runOf } from './run.js'
import { type StoredFills, storeFills } from './storeFills.js'
import { rangeTexts } from './verdicts.js'
import { storeVersions } from './versions.js'

/** Result of a writer. Fills, liquidations and funding rates may have gaps, and candles may come late. */
export type Written = WriteResult & Partial<StoredFills & StoredCandles>

/** Stores batches of a stream, all or nothing, in the transaction of `db`. Resolves to the result of each. */
type Writer<Target, Row> = (db: Kysely<Database>, batches: readonly Batch<Target, Row>[]) => Promise<Written[]>

const writers = {
  instruments: oneByOne((db, batch: Batch<CategoryTarget, Instrument>) =>
    recordInstruments(db, batch.target.category, batch.rows, batch.requestTime, { complete: isWholeList(batch) }),
  ),
  rpi_symbols: oneByOne((db, batch: Batch<object, RpiSymbol>) =>
    recordRpiSymbols(db, batch.rows, batch.requestTime, { complete: isWholeList(batch) }),
  ),
  fills: storeFills,
  candles: oneByOne(async (db, batch: Batch<CandleTarget, Candle>) => {
    const { rows, requestTime } = batch
    const at = batch.silence === undefined ? requestTime : null
    const stored = await storeCandles(db, rows, silenceInside(batch), at, requestTime)
    await denySilence(db, batch)
    return stored
  }),
  funding_rates: oneByOne(async (db, batch: Batch<FutureKey, FundingRate>) => {
    const stored = await storeFundingRates(db, batch.target, batch.rows, provenByBatch(batch))
    if (stored.proven.length === 0) await missEvents(db, 'funding_rates', batch)
    await withdrawUnread(db, 'funding_rates', batch, secondMs)
    return stored
  }),
  liquidations: oneByOne(async (db, batch: Batch<FutureKey, Liquidation>) => {
    await endClaimOfLiquidations(db, batch)
    const stored = await storeLiquidations(db, batch.target, batch.rows, provenByBatch(batch), [], batch.after)
    if (stored.proven.length === 0) await missEvents(db, 'liquidations', batch)
    await withdrawUnread(db, 'liquidations', batch, 1)
    return stored
  }),
  index_components: byVersions('index_components'),
} as const satisfies Readonly<Record<Exclude<StreamName, MomentStream>, unknown>>

/** Ends a claim that lacks the oldest rows of a live response. Rows before them may be missing, too. */
async function endClaimOfLiquidations(db: Kysely<Database>, batch: Batch<FutureKey, Liquidation>): Promise<void> {
  const run = runOf(batch.rows.map(({ ts }) => ts))
  if (run === null) return
  const { category, symbol } = batch.target
  const isUnbroken = batch.provesNothing !== true && missingRows(batch) === 0
  const until = addMs(isUnbroken ? addMs(run.edge, run.disorderMs) : run.newest, 1)
  const times = [new Date(run.oldest), new Date(until)] as const
  await callFunction(db, 'recorder.end_claim', 'liquidations', category, symbol, ...times)
}

/** Notes that a response shows candles in places of silence, although they could not be understood. */
async function denySilence(db: Kysely<Database>, { target, rows, rejected }: Batch<CandleTarget, Candle>) {
  const times = rows.map(({ openTime }) => openTime)
  const { category, symbol, type, interval } = target
  const lengthMs = intervalMs[interval]
  // A time that leaves the grid of the others may itself be the mistake in its row.
  const shown = unreadTimes(rejected, times).filter((time) => (time - (times[0] ?? 0)) % lengthMs === 0)
  if (type !== 'market' || shown.length === 0) return
  const places = rangeTexts(shown.map((from) => ({ from, to: addMs(from, lengthMs) })))
  await callFunction(db, 'recorder.deny_silence', category, symbol, type, interval, places)
}

/** Returns true for a stream whose rows depend on no other rows and claim nothing. */
export function isOfMoments(stream: StreamName): stream is MomentStream {
  return !(stream in writers)
}

/** Returns the writer of a stream. Target and rows of a batch must be of that stream. */
export function writerOf(stream: StreamName): Writer<unknown, unknown> {
  return (isOfMoments(stream) ? together(stream) : writers[stream]) as Writer<unknown, unknown>
}

function oneByOne<Target, Row>(
  write: (db: Kysely<Database>, batch: Batch<Target, Row>) => Promise<Written>,
): Writer<Target, Row> {
  return async (db, batches) => {
    const written: Written[] = []
    for (const batch of batches) written.push(await write(db, batch))
    return written
  }
}

function byVersions<Name extends VersionStream>(stream: Name): Writer<FuturesTarget, RowOf<Name>> {
  return oneByOne((db, batch) => storeVersions(db, stream, batch))
}

/** Stores the rows of all batches at once. PostgreSQL reports only a total, so counts per batch are approximate. */
function together<Name extends MomentStream>(stream: Name): Writer<unknown, RowOf<Name>> {
  return async (db, batches) => {
    const rowsOfAll = batches.flatMap(({ rows }) => rows)
    let left = (await appendRows(db, stream, rowsOfAll)).inserted
    return batches.map(({ rows }) => {
      const own = Math.min(left, rows.length)
      left -= own
      return { inserted: own, updated: 0 }
    })
  }
}

/** Returns the ranges that joined pages, or a single response, left out between two candles. */
function silenceInside(batch: Batch<CandleTarget, Candle>): readonly TimeRange[] {
  const { target, rows, requestTime, provesNothing, silence } = batch
  if (silence !== undefined) return silence
  const openTimes = rows.map(({ openTime }) => openTime)
  return silenceBetween(openTimes, {
    type: target.type,
    lengthMs: intervalMs[target.interval],
    isComplete: !provesNothing && missingRows(batch) === 0,
    settledUntil: addMs(requestTime, -target.settleMs),
  })
}
