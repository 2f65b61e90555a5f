import type { Kysely } from 'kysely'
import type { CandleSeries } from '../market/candle.js'
import type { TimeMs } from '../market/values.js'
import {
  candleSeries,
  coveredWithoutRows,
  type Disagreement,
  fillsWithoutTrade,
  rollupsThatDiffer,
  rowsWithoutCoverage,
  rowsWithoutTrade,
  volumesThatDiffer,
} from '../ledger/candleChecks.js'
import type { Database } from '../db/schema.js'

interface Verified {
  readonly check: string
  /** Number of series that were checked. */
  readonly series: number
  readonly disagreements: readonly Disagreement[]
}

interface Check {
  readonly name: string
  readonly concerns: (series: CandleSeries) => boolean
  readonly run: (db: Kysely<Database>, series: CandleSeries, keptSince: TimeMs) => Promise<Disagreement[]>
}

const checks: readonly Check[] = [
  { name: 'what is covered is stored', concerns: () => true, run: coveredWithoutRows },
  { name: 'what is stored is covered', concerns: () => true, run: rowsWithoutCoverage },
  { name: 'where nothing was traded nothing is stored', concerns: () => true, run: rowsWithoutTrade },
  {
    name: 'where nothing was traded there are no fills',
    concerns: ({ type }) => type === 'market',
    run: fillsWithoutTrade,
  },
  {
    name: "hours and days of the service agree with the service's minutes",
    concerns: ({ interval }) => interval === '1H' || interval === '1D',
    run: rollupsThatDiffer,
  },
  {
    name: 'volumes of minutes agree with the fills',
    concerns: ({ interval, type }) => interval === '1m' && type === 'market',
    run: volumesThatDiffer,
  },
]

/**
 * Compares stored rows with the claims about them, and candles with fills and with shorter candles.
 *
 * @param keptSince nothing is claimed before this time, because older candles may be removed. Default: all are kept.
 */
export async function* verify(
  db: Kysely<Database>,
  isWanted: (series: CandleSeries) => boolean,
  keptSince: TimeMs = 0,
): AsyncGenerator<Verified> {
  const all = (await candleSeries(db)).filter(isWanted)
  for (const { name, concerns, run } of checks) {
    const concerned = all.filter(concerns)
    const disagreements: Disagreement[] = []
    for (const series of concerned) disagreements.push(...(await run(db, series, keptSince)))
    yield { check: name, series: concerned.length, disagreements }
  }
}
