import { observedQuirks } from '../test/support/quirks.js'
import type { ListingRequest } from '../src/simulator/world/listing.js'
import { createWorld, type World } from '../src/simulator/world/world.js'

const launchTime = Date.UTC(2020, 0, 1)

export const benchSymbols = ['BTCUSDT', 'ETHUSDT', 'XRPUSDT']

/** Three spot instruments with some years of history, and as many futures for the live streams. */
export function benchInstruments(): ListingRequest[] {
  return benchSymbols.flatMap((symbol) =>
    (['SPOT', 'USDT-FUTURES'] as const).map((category) => ({ category, symbol, launchTime, fillsPerHour: 600 })),
  )
}

/** The same market as in the simulator's process, to compare with. */
export function benchWorld(): World {
  return createWorld({
    seed: 1,
    scale: 'small',
    activity: {},
    customInstruments: benchInstruments(),
    quirks: () => observedQuirks,
  })
}
