import type { Kysely } from 'kysely'
import {
  fundingPageRows,
  type FundingRate,
  fundingReachMs,
  type FutureKey,
  isFuture,
  leavesWithinMs,
  type Liquidation,
  liquidationPageRows,
  liquidationReachMs,
  longestFundingMs,
} from '../market/funding.js'
import type { InstrumentKey } from '../market/category.js'
import { subtract } from '../market/timeRange.js'
import type { Clock } from '../runtime/clock.js'
import { inTransaction } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { instrumentStream } from '../db/series.js'
import { loseGaps, missingOfStream } from '../ledger/events.js'
import { storeFundingRates } from '../ledger/fundingRates.js'
import { liquidationText, storeLiquidations } from '../ledger/liquidations.js'
import { insertWants } from '../ledger/wants.js'
import type { EventHistory } from './fetchEvents.js'
import { isDueAgain, repairOf } from './repair.js'

export function fundingHistory(db: Kysely<Database>): EventHistory<FundingRate> {
  return {
    stream: 'funding_rates',
    operationOf: () => 'history-fund-rate',
    pageRows: fundingPageRows,
    maxSpanMs: null,
    reachMs: fundingReachMs,
    numbered: { textOf: ({ ts }) => String(ts), silentBelowMs: longestFundingMs },
    ask: (client, { series, page }, request) =>
      client.fundingRates({ ...futureOf(series), cursor: page, limit: fundingPageRows }, request),
    timeOf: ({ ts }) => ts,
    async store({ series, covered, wanted, rows }) {
      const { inserted, proven } = await inTransaction(db, (trx) =>
        storeFundingRates(trx, futureOf(series), rows, covered),
      )
      return { inserted, refused: subtract(wanted, proven) }
    },
  }
}

/** Makes the history of liquidations, in which each page names the next one. */
export function liquidationHistory(db: Kysely<Database>): EventHistory<Liquidation> {
  return {
    stream: 'liquidations',
    operationOf: () => 'liquidations',
    pageRows: liquidationPageRows,
    maxSpanMs: null,
    reachMs: liquidationReachMs,
    numbered: { textOf: liquidationText, silentBelowMs: Infinity },
    ask: (client, { series, cursor }, request) =>
      client.liquidations(
        { ...futureOf(series), limit: liquidationPageRows, ...(cursor !== undefined && { cursor }) },
        request,
      ),
    timeOf: ({ ts }) => ts,
    store: ({ series, covered, rows }) =>
      inTransaction(db, (trx) => storeLiquidations(trx, futureOf(series), rows, covered)),
  }
}

function futureOf({ category, symbol }: InstrumentKey): FutureKey {
  const key = { category, symbol }
  if (isFuture(key)) return key
  throw new RangeError(`${category} ${symbol} is no future`)
}

interface FuturesRepairOptions {
  readonly db: Kysely<Database>
  /** The streams to repair, each with the time for which its rows are kept, in milliseconds; null: for ever. */
  readonly streams: readonly { readonly name: keyof typeof reachMs; readonly keptMs: number | null }[]
  /** Returns true if only this recorder requests the instrument. */
  readonly isOwn: (instrument: InstrumentKey) => boolean
  readonly clock: Clock
}

const reachMs = { funding_rates: fundingReachMs, liquidations: liquidationReachMs } as const

/**
 * Adds wants for missing funding rates and liquidations. Rows may be older than the first recording of an instrument.
 * Or the recorder was away for so long that no live response shows the rows.
 */
export async function repairFutures({ db, streams, isOwn, clock }: FuturesRepairOptions): Promise<void> {
  const now = clock.now()
  for (const { name, keptMs } of streams) {
    await loseGaps(db, name, now - reachMs[name])
    const since = now - Math.min(reachMs[name] - leavesWithinMs, keptMs ?? Infinity)
    const found = await missingOfStream(db, name, since)
    const due = found.filter((one) => isOwn(one) && isDueAgain(one, now))
    await insertWants(
      db,
      due.map(({ missing, ...key }) => repairOf(instrumentStream(name, key), missing)),
    )
  }
}
