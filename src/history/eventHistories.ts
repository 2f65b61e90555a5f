import type { Kysely } from 'kysely'
import { type CandleSeries, isSameSeries } from '../market/candle.js'
import { type FutureKey, type InstrumentKey, isFuture } from '../market/category.js'
import {
  fundingPageRows,
  type FundingRate,
  fundingReachMs,
  type Liquidation,
  liquidationPageRows,
  liquidationReachMs,
  longestFundingMs,
} from '../market/funding.js'
import { type Fill, fillsPerPage } from '../market/rows.js'
import { operationOfPastFills } from '../market/stream.js'
import { subtract } from '../market/timeRange.js'
import { dayMs } from '../market/values.js'
import { inTransaction } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { liquidationText, storeFundingRates, storeLiquidations } from '../ledger/futures.js'
import { explainFills, fillNeighbours, type JoinRefusal, storePastFills } from '../ledger/storePastFills.js'
import type { EventHistory } from './fetchEvents.js'

export const fillRefusals: Readonly<Record<JoinRefusal | 'unproven' | 'lacking', string>> = {
  'other ids': 'the history of fills names them by other ids than the service does live: it is not used',
  'other values': 'the history of fills gives stored ones another time, price, size or side: it is not used',
  incomplete: 'the history of fills lacks some that are stored: it is not used',
  lacking: 'the candle of the minute counts other fills than their history has, or is still to come',
  unproven: 'no fill shows whether the history of fills has the same ids as the service does live',
}

/** How far back the service gives fills. */
export const fillReachMs = 90 * dayMs

export const fillPageRows = 1_000
/** The longest time between the ends of a request. */
export const fillSpanMs = 7 * dayMs
/** The service's history may be some seconds behind its newest rows. */
export const historyLateMs = 20_000

/** Makes the history of fills, for futures and spot. A page is believed if it shows the stored fills of its time. */
export function fillHistory(db: Kysely<Database>, series: () => readonly CandleSeries[]): EventHistory<Fill> {
  return {
    stream: 'fills',
    operationOf: operationOfPastFills,
    pageRows: fillPageRows,
    maxSpanMs: fillSpanMs,
    reachMs: fillReachMs,
    numbered: null,
    minutesLateMs: historyLateMs,
    ask(client, { series: { category, symbol }, window: { from, to } }, request) {
      // One millisecond more is requested on both sides, because the ends may be exclusive.
      return client.pastFills({ category, symbol, limit: fillPageRows, startTime: from - 1, endTime: to }, request)
    },
    timeOf: ({ ts }) => ts,
    neighbours: (series, range) => fillNeighbours(db, series, range),
    async whyUnproven({ client, ask, request }, { category, symbol }) {
      const live = await client.fills({ category, symbol, limit: fillsPerPage }, request)
      const past = await ask(() => client.pastFills({ category, symbol, limit: fillPageRows }, request))
      const times = new Map(past.rows.map(({ execId, ts }) => [execId, ts]))
      return live.rows.some(({ execId, ts }) => times.get(execId) === ts) ? null : fillRefusals.unproven
    },
    async store({ series: key, rows, receivedAt, ...shown }) {
      const { category, symbol } = key
      const minutes: CandleSeries = { category, symbol, type: 'market', interval: '1m' }
      const hasCandles = series().some((candles) => isSameSeries(candles, minutes))
      const page = { ...shown, fills: rows, at: receivedAt, hasCandles }
      const { inserted, refusal, lacking, cut } = await storePastFills(db, key, page)
      for (const minute of lacking) await explainFills(db, key, minute, fillRefusals.lacking)
      if (refusal === null) return { inserted, refused: lacking, cut }
      return { inserted, refusal: fillRefusals[refusal], isForAll: refusal === 'other ids' }
    },
    explain: (series, range, reason) => explainFills(db, series, range, reason),
  }
}

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
