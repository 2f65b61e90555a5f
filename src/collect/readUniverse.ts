import type { ExchangeClient } from '../exchange/client.js'
import { categories, type InstrumentKey, tradedCategories } from '../market/category.js'
import { kindOf } from '../market/instrumentKind.js'
import { turnoverHere } from '../market/turnover.js'
import type { PlanUniverse } from './plan/planUniverse.js'

/** Asks the service for its instruments, their turnover and RPI membership: ten requests. Rejects with an ExchangeError. */
export async function readUniverse(client: ExchangeClient, signal: AbortSignal): Promise<PlanUniverse> {
  const [instruments, tickers, rpiSymbols] = await Promise.all([
    Promise.all(
      categories.map(async (category) => {
        const { rows } = await client.instruments({ category }, { signal })
        return rows.map((row) => ({ category, symbol: row.symbol, status: row.status, kind: kindOf(row) }))
      }),
    ),
    Promise.all(
      tradedCategories.map(async (category) => {
        const { rows } = await client.tickers({ category }, { signal })
        return rows.map((ticker) => ({ ...ticker, category }))
      }),
    ),
    client.rpiSymbols({ signal }),
  ])
  const tickerOf = new Map(tickers.flat().map((ticker) => [keyText(ticker), ticker]))
  const withRpi = new Set(rpiSymbols.rows.map(keyText))
  return {
    kind: 'listed',
    instruments: instruments.flat().map((instrument) => {
      const key = keyText(instrument)
      const ticker = tickerOf.get(key)
      const turnover24h = ticker === undefined ? null : turnoverHere(instrument.kind, ticker)
      return { ...instrument, turnover24h, hasRpi: withRpi.has(key), measuredFillsPerSecond: null }
    }),
  }
}

function keyText({ category, symbol }: InstrumentKey): string {
  return `${category} ${symbol}`
}
