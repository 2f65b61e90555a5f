import type { Config } from '../../config/resolve.js'
import type { ExchangeClient, Page } from '../../exchange/client.js'
import type { FuturesQuery } from '../../exchange/formats/futures.js'
import type { RequestOptions } from '../../exchange/sender.js'
import type { FuturesTarget } from '../../ledger/batch.js'
import { type FutureKey, futuresCategories, isFuture } from '../../market/category.js'
import { fundingPageRows, type FundingRate, type Liquidation, liquidationPageRows } from '../../market/funding.js'
import type { RowOf, StreamName } from '../../market/stream.js'
import { dayMs, hourMs, largest, minuteMs, secondsPerDay } from '../../market/values.js'
import { expectedFillsPerSecond } from '../universe/planUniverse.js'
import { type InstrumentStream, type ListStream, type RowBytes } from './stream.js'

type FutureStream<Row> = InstrumentStream<FutureKey, Row>

/** Makes a stream that requests each future by itself, once in a cycle. @param bytes size of a row */
function eachFuture<Row extends { readonly receivedAt: number }>(
  everyMs: number,
  bytes: RowBytes,
  own: Pick<FutureStream<Row>, 'name' | 'select' | 'fetch' | 'rowsPerDayOf'> & Partial<FutureStream<Row>>,
): FutureStream<Row> {
  return {
    kind: 'instruments',
    trigger: () => ({ kind: 'cycle', everyMs }),
    covers: isFuture,
    targetsOf: (_config, keys) => keys.filter(isFuture).map(({ category, symbol }) => ({ category, symbol })),
    costOf: () => () => 1000 / everyMs,
    // Each response with rows counts as news, so that only an instrument without rows is requested less often.
    contentOf: ([first]) => (first === undefined ? null : String(first.receivedAt)),
    bytes: () => bytes,
    ...own,
  }
}

/** Makes a stream of periods of five minutes. A response shows the periods of some hours. */
function fiveMinutePeriods<Row extends { readonly receivedAt: number }>(
  name: StreamName,
  ask: (client: ExchangeClient, query: FuturesQuery, options: RequestOptions) => Promise<Page<Row>>,
): FutureStream<Row> {
  return eachFuture(
    5 * minuteMs,
    { plain: 130, compressed: 12 },
    {
      name,
      select: ({ streams }) => streams.positioning.select,
      fetch: (client, key, options) => ask(client, { ...key, period: '5m' }, options),
      rowsPerDayOf: () => () => dayMs / (5 * minuteMs),
    },
  )
}

const listedFutures = ({ streams: { instruments } }: Config) =>
  instruments.enabled
    ? futuresCategories.filter((category) => instruments.categories.includes(category))
    : futuresCategories

/**
 * Streams that only futures have. Plain bytes were measured on PostgreSQL 18 with data of the simulator. Compressed
 * bytes are an estimate.
 */
export const futuresStreams = {
  funding_rates: eachFuture<FundingRate>(
    hourMs,
    { plain: 130, compressed: 12 },
    {
      name: 'funding_rates',
      // Rates are settled at full hours. The requests for them are spread over ten minutes.
      trigger: () => ({ kind: 'cycle', everyMs: hourMs, firstPart: 1 / 6 }),
      select: ({ streams }) => streams.fundingRates.select,
      // A page costs as much as a row, and makes good whatever was missed of the last hundred settlements.
      fetch: (client, key, options) => client.fundingRates({ ...key, limit: fundingPageRows }, options),
      // Most futures settle every eight hours, some more often.
      rowsPerDayOf: () => () => 6,
    },
  ),
  funding_forecasts: {
    kind: 'lists',
    name: 'funding_forecasts',
    schedule: () => '20 * * * * *',
    lists: listedFutures,
    fetch: (client, { category }, options) => client.fundingForecasts({ category }, options),
    // The service's own test symbols are on no list of instruments, and have no bounds.
    keeps: (universe, row) => row.minRate !== null || row.maxRate !== null || universe.find(row) !== undefined,
    rowsOf: ({ length }) => length,
    covers: isFuture,
    bytes: { plain: 150, compressed: 12 },
  } satisfies ListStream<FuturesTarget, RowOf<'funding_forecasts'>>,
  liquidations: eachFuture<Liquidation>(
    5 * minuteMs,
    { plain: 170, compressed: 20 },
    {
      name: 'liquidations',
      select: ({ streams }) => streams.liquidations.select,
      fetch: (client, key, options) => client.liquidations({ ...key, limit: liquidationPageRows }, options),
      // One fill in a hundred is assumed to close a position that was liquidated.
      rowsPerDayOf: () => (instrument) => (expectedFillsPerSecond(instrument) * secondsPerDay) / 100,
      contentOf(rows) {
        const newest = largest(rows.map(({ ts }) => ts))
        return rows.length === 0 ? null : `${newest} ${rows.filter(({ ts }) => ts === newest).length}`
      },
    },
  ),
  taker_flow: fiveMinutePeriods('taker_flow', (client, ...request) => client.takerFlow(...request)),
  long_short_ratios: fiveMinutePeriods('long_short_ratios', (client, ...request) => client.longShortRatios(...request)),
  long_short_accounts: fiveMinutePeriods('long_short_accounts', (client, ...request) =>
    client.longShortAccounts(...request),
  ),
  long_short_positions: fiveMinutePeriods('long_short_positions', (client, ...request) =>
    client.longShortPositions(...request),
  ),
  index_components: eachFuture<RowOf<'index_components'>>(
    hourMs,
    { plain: 150, compressed: 150 },
    {
      name: 'index_components',
      select: ({ streams }) => streams.fundingRates.select,
      fetch: (client, key, options) => client.indexComponents(key, options),
      // A row is written only when an entry changes, which is too rare to count.
      rowsPerDayOf: () => () => 0,
    },
  ),
}
