import type { ExchangeClient } from '../exchange/client.js'
import { categories, type InstrumentKey, tradedCategories } from '../market/category.js'
import type { PlanUniverse } from './plan/planUniverse.js'

/** Asks the service for its instruments, their turnover and RPI membership: ten requests. Rejects with an ExchangeError. */
export async function readUniverse(client: ExchangeClient, signal: AbortSignal): Promise<PlanUniverse> {
  const [instruments, tickers, rpiSymbols] = await Promise.all([
    Promise.all(
      categories.map(async (category) => {
        const { rows } = await client.instruments({ category }, { signal })
        return rows.map(({ symbol, status }) => ({ category, symbol, status }))
      }),
    ),
    Promise.all(
      tradedCategories.map(async (category) => {
        const { rows } = await client.tickers({ category }, { signal })
        return rows.map(({ symbol, turnover24h }) => ({ category, symbol, turnover24h }))
      }),
    ),
    client.rpiSymbols({ signal }),
  ])
  const turnover = new Map(tickers.flat().map((ticker) => [keyText(ticker), ticker.turnover24h]))
  const withRpi = new Set(rpiSymbols.rows.map(keyText))
  return {
    kind: 'listed',
    instruments: instruments.flat().map((instrument) => {
      const key = keyText(instrument)
      return { ...instrument, turnover24h: turnover.get(key) ?? null, hasRpi: withRpi.has(key) }
    }),
  }
}

function keyText({ category, symbol }: InstrumentKey): string {
  return `${category} ${symbol}`
}
