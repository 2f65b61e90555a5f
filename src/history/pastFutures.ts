import type { Kysely } from 'kysely'
import { type FutureKey, type InstrumentKey, isFuture } from '../market/category.js'
import {
  fundingPageRows,
  type FundingRate,
  type Liquidation,
  liquidationPageRows,
  nominalSettlement,
} from '../market/funding.js'
import { union } from '../market/timeRange.js'
import { inTransaction } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { liquidationText, storeFundingRates, storeLiquidations } from '../ledger/futures.js'
import { noteMissing } from '../ledger/missing.js'
import { beyondNumbered, nextNumbered } from './joinPages.js'
import { fetchPages, type PagedHistory } from './pagesWalk.js'
import type { EventHistory } from './sliceWork.js'

export function fundingHistory(db: Kysely<Database>): EventHistory {
  const source: PagedHistory<FundingRate> = {
    reachMs: new Map(),
    pageRows: fundingPageRows,
    next: nextNumbered,
    beyond: beyondNumbered,
    ask: (client, { series, page, limit }, request) =>
      client.fundingRates({ ...futureOf(series), cursor: page, limit }, request),
    textOf: ({ ts }) => String(nominalSettlement(ts)),
    store: ({ series, rows, proven, silent, beyond }) =>
      inTransaction(db, (trx) => storeFundingRates(trx, futureOf(series), rows, proven, { silent, beyond })),
    explain: explainIn(db),
  }
  return { operationOf: () => 'history-fund-rate', fetch: (...what) => fetchPages(source, ...what) }
}

/** Makes the history of liquidations, in which each page names the next one. */
export function liquidationHistory(db: Kysely<Database>): EventHistory {
  const source: PagedHistory<Liquidation> = {
    reachMs: new Map(),
    pageRows: liquidationPageRows,
    next: (_, query, cursor) => (cursor === undefined ? null : { ...query, limit: liquidationPageRows, cursor }),
    ask: (client, { series, limit, cursor }, request) =>
      client.liquidations({ ...futureOf(series), limit, ...(cursor !== undefined && { cursor }) }, request),
    textOf: liquidationText,
    store: ({ series, rows, proven, silent, beyond }) =>
      inTransaction(db, (trx) => storeLiquidations(trx, futureOf(series), rows, union(proven, silent), beyond)),
    explain: explainIn(db),
  }
  return { operationOf: () => 'liquidations', fetch: (...what) => fetchPages(source, ...what) }
}

const explainIn =
  (db: Kysely<Database>): PagedHistory<never>['explain'] =>
  (series, ranges, reason) =>
    noteMissing(db, series, ranges, reason)

function futureOf({ category, symbol }: InstrumentKey): FutureKey {
  const key = { category, symbol }
  if (isFuture(key)) return key
  throw new RangeError(`${category} ${symbol} is no future`)
}
