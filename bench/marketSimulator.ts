import type { Category } from '../src/market/category.js'
import { dayMs } from '../src/market/values.js'
import { startSimulator } from '../src/simulator/server.js'
import type { ServedResponse } from '../src/simulator/journal.js'
import type { ListingRequest } from '../src/simulator/world/listing.js'
import { createWorld } from '../src/simulator/world/world.js'
import { quirksSchema } from '../src/simulator/world/quirks.js'
import { oddPrefix } from './marketKinds.js'

/** How the simulated market is cut to size. */
export interface MarketOptions {
  readonly seed: number
  /** One instrument in so many, and the limits divided by it. */
  readonly part: number
  /** Instruments of a kind that nobody knows, at full size. */
  readonly odd: number
}

/** What requests brought, by what they were for. */
export interface Served {
  fills: { all: number; trading: number; odd: number }
  books: { all: number; withBook: number; odd: number }
  candles: { live: number; odd: number; past: number; pastInVain: number }
  rejected: number
}

/** What was there to be recorded of the ordinary instruments. */
export interface Truth {
  readonly served: Served
  readonly fills: number
}

/**
 * Instruments that look like the busiest coins of all: no flag sets them apart, their tickers claim billions that rise all day
 * and a best bid and ask, and nothing of it is there: no fills, no candles, and books that are empty or never change.
 */
function oddListings(count: number): ListingRequest[] {
  const books = ['empty', 'still', 'frozen'] as const
  return Array.from({ length: count }, (_, i) => ({
    category: i % 2 === 0 ? 'SPOT' : 'USDT-FUTURES',
    symbol: `${oddPrefix}${i}USDT`,
    fillsPerHour: 0,
    hasRpi: i % 5 === 0,
    outsideTape: { turnoverPerDay: 20e9 / (i + 1) ** 0.5, hours: 'always' },
    candles: i % 4 === 0 ? 'none' : 'traded',
    book: books[i % books.length] ?? 'empty',
  }))
}

function listingsOf({ seed, part, odd }: MarketOptions): ListingRequest[] {
  const world = createWorld({ seed, scale: 'live', activity: {}, quirks: () => quirksSchema.parse({}) })
  const chosen = world.listings().filter((_, index) => index % part === 0)
  return [...chosen, ...oddListings(Math.round(odd / part))]
}

const options = JSON.parse(process.env['BENCH_MARKET'] ?? '{}') as MarketOptions
const simulator = await startSimulator({
  seed: options.seed,
  journal: true,
  customInstruments: listingsOf(options),
  limits: { factor: 1 / options.part },
})
const served: Served = {
  fills: { all: 0, trading: 0, odd: 0 },
  books: { all: 0, withBook: 0, odd: 0 },
  candles: { live: 0, odd: 0, past: 0, pastInVain: 0 },
  rejected: 0,
}

function count({ operation, parameters, data, status, atMs }: ServedResponse): void {
  if (status === 429) served.rejected++
  const isOdd = parameters['symbol']?.startsWith(oddPrefix) === true
  const rows = Array.isArray(data) ? (data as readonly unknown[]) : []
  switch (operation) {
    case 'fills': {
      served.fills.all++
      if (isOdd) served.fills.odd++
      const newest = Number((rows[0] as { readonly ts?: string } | undefined)?.ts ?? 0)
      if (newest > atMs - dayMs) served.fills.trading++
      return
    }
    case 'orderbook':
    case 'rpi-orderbook': {
      served.books.all++
      if (isOdd) served.books.odd++
      const { a = [], b = [] } = (data ?? {}) as { readonly a?: readonly unknown[]; readonly b?: readonly unknown[] }
      if (a.length + b.length > 0) served.books.withBook++
      return
    }
    case 'candles':
    case 'history-candles': {
      // Only repair and backfill ask for a range.
      const isPast = parameters['startTime'] !== undefined || parameters['endTime'] !== undefined
      if (isPast) served.candles.past++
      else served.candles.live++
      if (isPast && rows.length === 0) served.candles.pastInVain++
      if (isOdd) served.candles.odd++
      return
    }
    default:
  }
}

// The responses of half an hour would not fit into memory.
const drain = () => {
  for (const response of simulator.control.journal()) count(response)
  simulator.control.clearJournal()
}
const timer = setInterval(drain, 1000)

function fillsBetween(from: number, to: number): number {
  let fills = 0
  for (const { category, symbol } of simulator.world.listings()) {
    if (category === ('MARGIN' satisfies Category)) continue
    fills += simulator.world.fills(category, symbol, from, to).length
  }
  return fills
}

process.on('message', ({ from, to }: { from: number; to: number }) => {
  drain()
  process.send?.({ served, fills: fillsBetween(from, to) } satisfies Truth)
})
process.once('disconnect', () => {
  clearInterval(timer)
  void simulator.close()
})
process.send?.(simulator.url)
