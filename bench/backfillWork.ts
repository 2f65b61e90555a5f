import { operations } from '../src/market/stream.js'
import { dayMs, minuteMs } from '../src/market/values.js'
import type { RecorderDatabase } from '../src/db/database.js'
import { benchSymbols, benchWorld } from './backfillMarket.js'
import type { Bench } from './backfillSetup.js'

export type Check = readonly [what: string, measured: string, target: string, isMet: boolean]

export type BenchInterval = '1m' | '5m'
const minutesOf: Readonly<Record<BenchInterval, number>> = { '1m': 1, '5m': 5 }
/** How far back the simulated \`candles\` reaches for minutes. */
export const reachDays = 30
const reachDaysOf5m = 60

export function configOf(bench: Bench, limitFactor: number, more: object = {}) {
  const perSecond = Object.fromEntries(
    operations.map((operation) => [operation, (operation.startsWith('rpi') ? 10 : 20) * limitFactor]),
  )
  return {
    exchange: {
      baseUrl: bench.simulatorUrl,
      limits: { overallPerMinute: 6_000 * limitFactor, perSecond },
      ...more,
    },
    serve: { enabled: false },
  }
}

export function backfillArgs(config: string, from: number, to: number, interval: BenchInterval = '1m'): string[] {
  const time = (at: number) => new Date(at).toISOString()
  const what = ['--category', 'SPOT', '--symbol', ...benchSymbols, '--interval', interval]
  return ['backfill', '--config', config, ...what, '--from', time(from), '--to', time(to)]
}

/** Whole days before today, so that nothing of it is still to settle. */
export function rangeOf(days: number): { from: number; to: number } {
  const to = Math.floor((Date.now() - dayMs / 24) / dayMs) * dayMs
  return { from: to - days * dayMs, to }
}

export function minRequests(from: number, to: number, series: number, interval: BenchInterval = '1m'): number {
  const lengthMs = minutesOf[interval] * minuteMs
  const edge = Math.max(from, Date.now() - (interval === '1m' ? reachDays : reachDaysOf5m) * dayMs)
  const recent = Math.ceil((to - edge) / lengthMs / 1000)
  const old = Math.ceil(Math.max(0, edge - from) / lengthMs / 100)
  return series * (Math.max(0, recent) + old)
}

/** How many stored candles are missing, too many, or not what the simulator's market says they are. */
export async function compare(
  database: RecorderDatabase,
  from: number,
  to: number,
  interval: BenchInterval = '1m',
): Promise<number> {
  const world = benchWorld()
  let wrong = 0
  for (const symbol of benchSymbols) {
    const series = { category: 'SPOT', symbol, type: 'market', interval } as const
    for (let day = from; day < to; day += dayMs) {
      const truth = world.candles(series, day, day + dayMs, Date.now()).map((row) => row.join(' '))
      const { rows } = await database.pool.query<{ text: string }>(
        `select concat_ws(' ', (extract(epoch from open_time) * 1000)::bigint, open, high, low, close, base_volume, quote_turnover) as text
         from market.candles where category = 'SPOT' and symbol = $1 and interval = $4 and type = 'market' and is_closed
           and open_time >= $2 and open_time < $3 order by open_time`,
        [symbol, new Date(day), new Date(day + dayMs), interval],
      )
      wrong += Math.abs(truth.length - rows.length)
      for (const [i, row] of rows.entries()) if (row.text !== truth[i]) wrong++
    }
  }
  return wrong
}
