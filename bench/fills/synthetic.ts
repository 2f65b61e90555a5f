import { quirksSchema } from '../../src/simulator/world/quirks.js'
import { createWorld } from '../../src/simulator/world/world.js'
import type { FillMarket, Flow } from './market.js'

const startsAt = Date.UTC(2026, 0, 5, 12)
const category = 'USDT-FUTURES'
const beforeMs = 300_000

/** The simulator's market: a few instruments are very busy, some busy, most nearly idle. */
export function syntheticMarket(flow: 'market' | 'even', durationMs: number, seed: number, busy: number): FillMarket {
  const rates = Array.from({ length: 200 }, (_, rank) => (rank < busy ? 50 : rank < 20 ? 5 : rank < 50 ? 0.5 : 0.05))
  const symbols = rates.map((_, index) => `S${String(index).padStart(3, '0')}USDT`)
  const world = createWorld({
    seed,
    scale: 'tiny',
    activity: { burstiness: 0.5, flow },
    customInstruments: symbols.map((symbol, index) => ({
      category,
      symbol,
      fillsPerHour: (rates[index] ?? 0) * 3600,
      launchTime: Date.UTC(2020, 0, 1),
    })),
    quirks: () => quirksSchema.parse({}),
  })
  const flows = symbols.map((symbol): Flow => {
    const fills = world.fills(category, symbol, startsAt - beforeMs, startsAt + durationMs)
    return {
      times: Float64Array.from(fills, ({ ts }) => Number(ts) - startsAt),
      prices: Float64Array.from(fills, ({ price }) => Number(price)),
      sizes: Float64Array.from(fills, ({ size }) => Number(size)),
    }
  })
  return {
    name: `simulator, ${flow} flow`,
    durationMs,
    flows,
    ticker(instrument, atMs) {
      const row = world.ticker(category, symbols[instrument] as string, startsAt + atMs)
      return { ts: atMs, volume24h: row?.['volume24h'] ?? '0', lastPrice: row?.['lastPrice'] ?? null }
    },
  }
}
