import type { Environment } from '../../src/config/environment.js'
import { type Config, resolveConfig } from '../../src/config/resolve.js'
import type { TradedCategory } from '../../src/market/category.js'
import { instrumentKinds } from '../../src/market/instrument.js'
import type { Operation } from '../../src/market/operation.js'
import { createRandom, mix } from '../../src/simulator/world/hash.js'
import type { ListingRequest } from '../../src/simulator/world/listing.js'
import type { Quirks } from '../../src/simulator/world/quirks.js'
import { planCrashLoops, type PlannedFault, planFaults } from './faultPlan.js'

/** The plan of a world, drawn from its seed before anything happens. */
export interface WorldPlan {
  readonly epochMs: number
  readonly machines: readonly string[]
  /** The most that the time from departure to arrival varies. */
  readonly jitterMs: number
  /** Tight enough that recorders are at their limits now and then. */
  readonly limits: { readonly perSecond: Readonly<Partial<Record<Operation, number>>>; readonly perMinute: number }
  /** The market's history since then has to be computed. */
  readonly launchedBeforeMs: number
  /** The longest delay after which a fill is shown. */
  readonly fillsBehindMs: number
  /** The longest delay after which a candle is shown: less than recorders wait before they take one for final. */
  readonly candlesBehindMs: number
  readonly fillsHistory: FillsHistory
  readonly pages: Pages
  readonly instruments: readonly WorldInstrument[]
  readonly rhythm: WorldRhythm
  readonly poolSize: number
  readonly faults: readonly PlannedFault[]
}

export interface WorldInstrument extends ListingRequest {
  readonly category: TradedCategory
  /** On average. */
  readonly fillsPerHour: number
  readonly hasRpi: boolean
}

/** Errors of the service's history of fills, as quirks of the simulator. */
type Pages = Pick<Quirks, 'pageRows' | 'oldestFirst' | 'unordered'>

type FillsHistory = Partial<Pick<Quirks, 'noFillsHistory' | 'fillsHistoryIds' | 'spotHistoryInSeconds' | 'hiddenFills'>>

/** How often recorders ask. Most worlds are calm, so that an hour of theirs is over in seconds of ours. */
export interface WorldRhythm {
  /** Divides a minute. */
  readonly tickersEverySeconds: number
  /** Between looks at tickers that are not recorded, while fills are many; 0: none. */
  readonly watchSeconds: number
  readonly listsEveryMinutes: number
  readonly booksEverySeconds: number
  readonly fillsMaxSeconds: number
}

/** All machines of a world send from one address. */
export const egress = 'simulated'

export const settleMs = 2_000

const names: readonly Pick<WorldInstrument, 'category' | 'symbol'>[] = [
  { category: 'SPOT', symbol: 'HOTUSDT' },
  { category: 'USDT-FUTURES', symbol: 'BTCUSDT' },
  { category: 'SPOT', symbol: 'BTCUSDT' },
  { category: 'COIN-FUTURES', symbol: 'BTCUSD_CM' },
  { category: 'USDT-FUTURES', symbol: 'ETHUSDT' },
  { category: 'SPOT', symbol: 'ETHUSDT' },
  { category: 'SPOT', symbol: 'XRPUSDT' },
]

export function planWorld(seed: number, minutes: number): WorldPlan {
  const random = createRandom(mix(seed, 2))
  const between = (least: number, most: number) => least + Math.floor(random() * (most - least + 1))
  const about = (least: number, most: number) => Math.round(least * (most / least) ** random())
  const oneOf = <Value>(...values: readonly Value[]) => values[Math.floor(random() * values.length)] as Value
  // Any time of any day: openings, nights, weekends, quarters of an hour.
  const epochMs = Date.UTC(2026, 0, 1) + between(0, 300) * 86_400_000 + between(0, 86_399) * 1_000
  const machines = random() < 0.3 ? ['one', 'two'] : ['one']
  const untilMs = minutes * 60_000
  const loops = planCrashLoops(createRandom(mix(seed, 6)), 5_000, untilMs)
  return {
    epochMs,
    machines: loops.length > 0 ? ['one', 'two'] : machines,
    jitterMs: between(5, 150),
    limits: {
      perSecond: {
        tickers: oneOf(1, 2, 20),
        fills: between(1, 4),
        orderbook: between(1, 4),
        'rpi-orderbook': between(1, 4),
        candles: between(1, 4),
        'history-candles': between(1, 4),
      },
      perMinute: about(150, 2_000),
    },
    fillsBehindMs: oneOf(0, 0, 200, 1_500),
    candlesBehindMs: oneOf(0, 300, 1_500),
    fillsHistory: planFillsHistory(createRandom(mix(seed, 5)), epochMs, minutes),
    pages: planPages(createRandom(mix(seed, 7))),
    launchedBeforeMs: between(600, 7_200) * 1_000,
    // The first is busy enough that what lasts for a minute costs some of its fills; others are quieter, some nearly silent.
    instruments: names.slice(0, about(1, names.length)).map((name, place) => ({
      ...name,
      fillsPerHour: place === 0 ? about(500, 30_000) : about(10, 2_000),
      hasRpi: random() < 0.5,
    })),
    rhythm: {
      tickersEverySeconds: oneOf(10, 20, 30, 60, 60),
      watchSeconds: createRandom(mix(seed, 4))() < 0.25 ? 0.5 : 0,
      listsEveryMinutes: oneOf(1, 2, 5),
      booksEverySeconds: about(10, 180),
      fillsMaxSeconds: about(60, 600),
    },
    poolSize: between(2, 5),
    faults: [
      ...planFaults({ random: createRandom(mix(seed, 3)), fromMs: 5_000, untilMs, machines: machines.length }),
      ...loops,
    ].toSorted((a, b) => a.atMs - b.atMs),
  }
}

/** Half of the services have a true history. Each of the others lies or fails in a way of its own. */
/** Draws how pages of the service are: most worlds have some that are short, or begin with the oldest rows. */
function planPages(random: () => number): Pages {
  const rows = (most: number) => Math.round(5 * (most / 5) ** random())
  const histories = ['futures-fills-history', 'spot-fills-history'] as const
  const pageRows: Pages['pageRows'] = {}
  for (const operation of histories) if (random() < 0.4) pageRows[operation] = rows(1_000)
  if (random() < 0.2) pageRows.fills = 20 + Math.floor(random() * 80)
  if (random() < 0.3) pageRows['history-candles'] = 10 + Math.floor(random() * 90)
  return {
    pageRows,
    oldestFirst: random() < 0.2 ? [...histories] : [],
    unordered: random() < 0.2 ? ['candles', 'history-candles'] : [],
  }
}

function planFillsHistory(random: () => number, epochMs: number, minutes: number): FillsHistory {
  const kind = random()
  const spotHistoryInSeconds = random() < 0.1
  const missing = (['code', 'notFound', 'html'] as const)[Math.floor(random() * 3)] ?? 'code'
  if (kind < 0.5) return { spotHistoryInSeconds }
  if (kind < 0.65) return { noFillsHistory: missing }
  if (kind < 0.8) return { fillsHistoryIds: 'other', spotHistoryInSeconds }
  const holes = Array.from({ length: 1 + Math.floor(random() * minutes * 4) }, () => {
    const from = epochMs + Math.floor(random() * minutes * 60_000)
    return { from, to: from + Math.floor(100 * 300 ** random()), in: 'history' as const }
  })
  return { hiddenFills: holes, spotHistoryInSeconds }
}

/** The configuration of the recorders. Internal intervals are shorter here, because a world lasts minutes. */
export function configOf(plan: WorldPlan, env: Environment): Config {
  const config = resolveConfig(env, { value: optionsOf(plan), place: () => 'simulation' })
  config.database.poolSize = plan.poolSize
  Object.assign(config.exchange, {
    latencyJitterMs: plan.jitterMs,
    timeoutMs: 6_000,
    retry: { ...config.exchange.retry, attempts: 3, totalMs: 10_000, maxDelayMs: 1_000 },
  })
  config.streams.candles.settleMs = settleMs
  return config
}

function optionsOf({ limits, instruments, rhythm }: WorldPlan) {
  const { booksEverySeconds, listsEveryMinutes, tickersEverySeconds, watchSeconds, fillsMaxSeconds } = rhythm
  const categories = [...new Set(instruments.map(({ category }) => category))]
  const select = { categories, kinds: instrumentKinds, busiest: 'all' }
  const booksOf = (few: number) => ({
    categories,
    kinds: instrumentKinds,
    busiest: instruments.length > names.length ? 'fit' : few,
  })
  return {
    database: { dataDir: '/data' },
    exchange: {
      limits: { perSecond: limits.perSecond, overallPerMinute: limits.perMinute },
    },
    collector: { egress, allowOverload: true },
    streams: {
      instruments: { schedule: `15 */${listsEveryMinutes} * * * *`, categories },
      tickers: {
        schedule: `${tickersEverySeconds === 60 ? 5 : `*/${tickersEverySeconds}`} * * * * *`,
        categories,
        watchSeconds,
      },
      orderBooks: { everySeconds: booksEverySeconds, depth: 10, select: booksOf(3) },
      rpiOrderBooks: { everySeconds: booksEverySeconds * 2, depth: 10, select: booksOf(2) },
      fills: { maxPollSeconds: fillsMaxSeconds, select },
      candles: { types: ['market'], intervals: ['1m'], select },
    },
    serve: { enabled: false },
  }
}
