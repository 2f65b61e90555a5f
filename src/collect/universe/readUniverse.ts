import type { ExchangeClient, Page } from '../../exchange/client.js'
import { ExchangeError } from '../../exchange/errors.js'
import { categories, instrumentText, tradedCategories } from '../../market/category.js'
import { kindOf } from '../../market/instrument.js'
import { turnoverHere } from '../../market/rows.js'
import type { PlanUniverse } from './planUniverse.js'

/**
 * Asks the service for its instruments, their turnover and RPI membership, with ten requests. A category that the
 * service no longer knows is left out and passed to `onMissing`. Rejects with an ExchangeError for every other failure,
 * and when no category is left.
 */
export async function readUniverse(
  client: ExchangeClient,
  signal: AbortSignal,
  onMissing: (error: ExchangeError) => void,
): Promise<PlanUniverse> {
  const missing: ExchangeError[] = []
  const orMissing = async <Row>(rows: Promise<readonly Row[]>): Promise<readonly Row[]> => {
    try {
      return await rows
    } catch (error) {
      if (!(error instanceof ExchangeError) || error.kind !== 'unknown-category') throw error
      missing.push(error)
      return []
    }
  }
  const [instruments, tickers, rpiSymbols] = await Promise.all([
    Promise.all(
      categories.map(async (category) => {
        const rows = await orMissing(rowsOf(client.instruments({ category }, { signal })))
        return rows.map((row) => ({ category, symbol: row.symbol, status: row.status, kind: kindOf(row) }))
      }),
    ),
    Promise.all(
      tradedCategories.map(async (category) => {
        const rows = await orMissing(rowsOf(client.tickers({ category }, { signal })))
        return rows.map((ticker) => ({ ...ticker, category }))
      }),
    ),
    client.rpiSymbols({ signal }),
  ])
  const [first] = missing
  if (first !== undefined && instruments.every((rows) => rows.length === 0)) throw first
  for (const error of missing) onMissing(error)
  const tickerOf = new Map(tickers.flat().map((ticker) => [instrumentText(ticker), ticker]))
  const withRpi = new Set(rpiSymbols.rows.map(instrumentText))
  return {
    kind: 'listed',
    instruments: instruments.flat().map((instrument) => {
      const key = instrumentText(instrument)
      const ticker = tickerOf.get(key)
      const turnover24h = ticker === undefined ? null : turnoverHere(instrument.kind, ticker)
      return { ...instrument, turnover24h, hasRpi: withRpi.has(key), measuredFillsPerSecond: null }
    }),
  }
}

async function rowsOf<Row>(page: Promise<Page<Row>>): Promise<readonly Row[]> {
  return (await page).rows
}
