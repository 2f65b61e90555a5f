import type { FuturesTarget } from '../../ledger/batch.js'
import { type FundingForecast, futuresCategories } from '../../market/funding.js'
import type { ListStream } from './stream.js'

const areFutures = ({ category }: { readonly category: string }) => category.endsWith('FUTURES')

export const fundingForecasts: ListStream<FuturesTarget, FundingForecast> = {
  kind: 'lists',
  name: 'funding_forecasts',
  schedule: () => '20 * * * * *',
  lists: () => futuresCategories,
  fetch: (client, { category }, options) => client.fundingForecasts({ category }, options),
  // The service's own test symbols are on no list of instruments, and have no bounds.
  keeps: (universe, row) => row.minRate !== null || row.maxRate !== null || universe.has(row),
  rowsOf: ({ length }) => length,
  covers: areFutures,
  // Plain ones were measured on PostgreSQL 18 with data of the simulator. Compressed ones are an estimate.
  bytes: { plain: 150, compressed: 12 },
}
