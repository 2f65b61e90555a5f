import type { Config } from '../../config/resolve.js'
import type { FuturesTarget } from '../../ledger/batch.js'
import {
  fundingPageRows,
  type FundingRate,
  type FutureKey,
  futuresCategories,
  isFuture,
  type Liquidation,
  liquidationPageRows,
} from '../../market/funding.js'
import type { InstrumentKey } from '../../market/category.js'
import type { RowOf } from '../../market/stream.js'
import { hourMs } from '../../market/values.js'
import { expectedFillsPerSecond } from '../universe/planUniverse.js'
import { type InstrumentStream, type ListStream, secondsPerDay } from './stream.js'

function futuresOf(_config: Config, keys: readonly InstrumentKey[]): FutureKey[] {
  return keys.filter(isFuture).map(({ category, symbol }) => ({ category, symbol }))
}

export const fundingRates: InstrumentStream<FutureKey, FundingRate> = {
  kind: 'instruments',
  name: 'funding_rates',
  // Rates are settled at full hours. The requests for them are spread over ten minutes.
  trigger: () => ({ kind: 'cycle', everyMs: hourMs, firstPart: 1 / 6 }),
  select: ({ streams }) => streams.fundingRates.select,
  covers: isFuture,
  targetsOf: futuresOf,
  // A page costs as much as a row. It makes good what was missed since a hundred settlements.
  fetch: (client, { category, symbol }, options) =>
    client.fundingRates({ category, symbol, limit: fundingPageRows }, options),
  costOf: () => () => 1 / 3600,
  // Every eight hours by most of them, more often by some.
  rowsPerDayOf: () => () => 6,
  // Each response counts as news. Only an instrument without any rates is asked less often.
  contentOf: ([first]) => (first === undefined ? null : String(first.receivedAt)),
  // Plain ones were measured on PostgreSQL 18 with data of the simulator. Compressed ones are an estimate.
  bytes: () => ({ plain: 130, compressed: 12 }),
}

export const fundingForecasts: ListStream<FuturesTarget, RowOf<'funding_forecasts'>> = {
  kind: 'lists',
  name: 'funding_forecasts',
  schedule: () => '20 * * * * *',
  lists: ({ streams }) =>
    streams.instruments.enabled
      ? futuresCategories.filter((category) => streams.instruments.categories.includes(category))
      : futuresCategories,
  fetch: (client, { category }, options) => client.fundingForecasts({ category }, options),
  // The service's own test symbols are on no list of instruments, and have no bounds.
  keeps: (universe, row) => row.minRate !== null || row.maxRate !== null || universe.has(row),
  rowsOf: ({ length }) => length,
  covers: isFuture,
  // Plain ones were measured on PostgreSQL 18 with data of the simulator. Compressed ones are an estimate.
  bytes: { plain: 150, compressed: 12 },
}

export const liquidations: InstrumentStream<FutureKey, Liquidation> = {
  kind: 'instruments',
  name: 'liquidations',
  trigger: ({ streams }) => ({ kind: 'cycle', everyMs: streams.liquidations.everySeconds * 1000 }),
  select: ({ streams }) => streams.liquidations.select,
  covers: isFuture,
  targetsOf: futuresOf,
  fetch: (client, { category, symbol }, options) =>
    client.liquidations({ category, symbol, limit: liquidationPageRows }, options),
  costOf:
    ({ streams }) =>
    () =>
      1 / streams.liquidations.everySeconds,
  // Assumed: of a hundred fills one closes a position that was liquidated.
  rowsPerDayOf: () => (instrument) => (expectedFillsPerSecond(instrument) * secondsPerDay) / 100,
  contentOf(rows) {
    const newest = Math.max(...rows.map(({ ts }) => ts))
    return rows.length === 0 ? null : `${newest} ${rows.filter(({ ts }) => ts === newest).length}`
  },
  // Plain ones were measured on PostgreSQL 18 with data of the simulator. Compressed ones are an estimate.
  bytes: () => ({ plain: 170, compressed: 20 }),
}
