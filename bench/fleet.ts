import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import type { ServedResponse } from '../src/simulator/journal.js'
import type { Stall } from '../src/simulator/stalls.js'
import type { Report } from '../src/simulator/limits.js'
import type { Check } from './figures.js'
import { addressOf, type FleetBench, openFleetBench } from './fleetSetup.js'
import { askedBooks, fillTruth, longestOverlapMs, longestWithoutOwnerMs } from './fleetTruth.js'

const limitFactor = 0.2
const everySeconds = 5
const eight = [1, 2, 3, 4, 5, 6, 7, 8] as const
const limits = {
  overallPerMinute: 1200,
  perSecond: {
    instruments: 4,
    'rpi-symbols': 2,
    tickers: 4,
    orderbook: 4,
    'rpi-orderbook': 2,
    fills: 4,
    candles: 4,
    'history-candles': 4,
  },
} as const

/** Eight recorders on addresses of their own against limits of a fifth: what they record together, and what accidents cost. */
export async function benchFleet(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      only: { type: 'string', default: 'share,faults' },
      seconds: { type: 'string', default: '40' },
      seeds: { type: 'string', default: '1,2,3' },
    },
  })
  const checks: Check[] = []
  if (values.only.includes('share')) checks.push(...(await benchShare(Number(values.seconds))))
  if (values.only.includes('faults')) {
    for (const seed of values.seeds.split(',')) checks.push(...(await benchFaults(Number(seed))))
  }
  const table = new Table({ head: ['what', 'measured', 'wanted', ''], style: { head: [], border: [] } })
  for (const { what, measured, target, isMet } of checks) table.push([what, measured, target, isMet ? 'ok' : 'MISSED'])
  console.log(table.toString())
  return checks.every(({ isMet }) => isMet) ? 0 : 1
}

/** Order books only: they ask for all that the limits leave room for, so that nothing else decides how much that is. */
async function benchShare(seconds: number): Promise<Check[]> {
  const config = {
    exchange: { limits },
    streams: {
      tickers: { watchSeconds: 0 },
      orderBooks: { everySeconds: 2, depth: 5, select: { kinds: ['crypto', 'rwa_perpetual', 'metal'] } },
      rpiOrderBooks: { enabled: false },
      fills: { enabled: false },
      candles: { enabled: false },
    },
    serve: { enabled: false },
  }
  const measure = async (addresses: readonly number[]) => {
    const bench = await openFleetBench(1, limitFactor)
    try {
      for (const address of addresses) {
        await bench.start(address, config)
        await sleep(1_500)
      }
      await sleep(25_000)
      const from = bench.simulator.control.journal().length
      const rows = async () =>
        (await bench.database.pool.query<{ count: number }>('select count(*)::int as count from market.order_books'))
          .rows[0]?.count ?? 0
      const rowsBefore = await rows()
      await sleep(seconds * 1000)
      const journal = bench.simulator.control.journal().slice(from)
      const books = journal.filter(({ operation }) => operation === 'orderbook')
      return {
        requests: books.length / seconds,
        rows: ((await rows()) - rowsBefore) / seconds,
        overlapMs: longestOverlapMs(askedBooks(journal), 10_000),
        rejected: rejectedOf(bench.simulator.control.report()),
        lists: new Set(
          journal
            .filter(({ operation }) => operation === 'tickers')
            .map(({ source, parameters }) => `${parameters['category']} ${source}`),
        ).size,
      }
    } finally {
      await bench.close()
    }
  }
  const one = await measure([1])
  const all = await measure(eight)
  const ratio = (of: 'requests' | 'rows') => all[of] / (8 * one[of])
  return [
    atLeast(
      'requests of eight, of eight times those of one',
      ratio('requests'),
      0.95,
      `${all.requests.toFixed(1)}/s, one ${one.requests.toFixed(2)}/s`,
    ),
    atLeast(
      'rows of eight, of eight times those of one',
      ratio('rows'),
      0.95,
      `${all.rows.toFixed(1)}/s, one ${one.rows.toFixed(2)}/s`,
    ),
    atMost('requests rejected', one.rejected + all.rejected, 0),
    atMost('longest that two asked for the same book, s', all.overlapMs / 1000, 5),
    atMost('recorders of each ticker list (4 lists)', all.lists, 4),
  ]
}

/** Recorders that die, a database that restarts, and one that comes, under load. */
async function benchFaults(seed: number): Promise<Check[]> {
  const config = {
    exchange: { limits },
    streams: {
      tickers: { watchSeconds: 0 },
      orderBooks: { everySeconds, depth: 5, select: { busiest: 'all' } },
      rpiOrderBooks: { enabled: false },
      fills: { maxPollSeconds: 30 },
      candles: { settleMs: 2000, select: { busiest: 'all' } },
    },
    serve: { enabled: false },
  }
  const bench = await openFleetBench(seed, limitFactor)
  try {
    for (const address of eight) await bench.start(address, config)
    await sleep(35_000)
    const kills: { atMs: number; gone: ReadonlySet<string> }[] = []
    const killed = 1 + ((seed - 1) % 3)
    const kill = async (addresses: readonly number[]) => {
      const gone = new Set(addresses.map(addressOf))
      kills.push({ atMs: Date.now(), gone })
      await bench.stop(addresses, 'SIGKILL')
      await sleep(15_000)
    }
    await kill(eight.slice(seed % 5, (seed % 5) + killed))
    await bench.start(9, config)
    await sleep(15_000)
    await bench.restartDatabase()
    await sleep(12_000)
    await kill(bench.running().slice(0, 1))
    const end = await settleAndStop(bench)
    const journal = bench.simulator.control.journal()
    const books = askedBooks(journal)
    const without = kills.map(({ atMs, gone }) => longestWithoutOwnerMs(books, gone, atMs))
    const truth = await fillTruth(bench.database, bench.simulator.world, end - 35_000)
    console.log(
      `seed ${seed}: ${journal.length} requests, ${truth.stored} fills stored, ${truth.lost} lost, ${truth.gaps} gaps; books without owner for ${without.map(({ longestMs, count }) => `${(longestMs / 1000).toFixed(1)} s at most, of ${count}`).join('; ')}`,
    )
    const rejected = journal.filter(({ status }) => status === 429)
    if (rejected.length > 0) console.log(rejectedText(rejected, bench.simulator.control.stalls()))
    const named = (what: string) => `seed ${seed}, ${killed} + 1 killed: ${what}`
    return [
      atMost(named('longest without an owner, s'), Math.max(...without.map(({ longestMs }) => longestMs)) / 1000, 10),
      atMost(
        named('longest that two asked for the same book, s'),
        longestOverlapMs(books, 2.5 * everySeconds * 1000) / 1000,
        5,
      ),
      atMost(named('requests rejected'), rejectedOf(bench.simulator.control.report()), 0),
      atMost(named('lost fills outside of gaps (recall)'), truth.unnamed, 0),
      atMost(named('gaps without a lost fill (precision)'), truth.wrongGaps, 0),
      atMost(named('lost fills in proven stretches'), truth.falseClaims, 0),
    ]
  } finally {
    await bench.close()
  }
}

/** Lets the candles of the last minutes tell which gaps are none, and ends all. */
async function settleAndStop(bench: FleetBench): Promise<number> {
  await sleep(45_000)
  const endedAt = Date.now()
  await bench.stop(bench.running(), 'SIGTERM')
  return endedAt
}

/** When requests were rejected, and how long before the simulator had last stood still: what arrives in a stall is counted at its end. */
function rejectedText(rejected: readonly ServedResponse[], stalls: readonly Stall[]): string {
  const behind = rejected.filter(({ atMs }) =>
    stalls.some(({ fromMs, toMs }) => atMs >= fromMs - 1_000 && atMs <= toMs + 1_000),
  )
  const operations = new Set(rejected.map(({ operation, source }) => `${operation} ${source}`))
  return `rejected: ${rejected.length}, of which within a second of a stall of the simulator of 40 ms or more: ${behind.length}; ${[...operations].join(', ')}`
}

function rejectedOf(report: Report): number {
  return Object.values(report).reduce((sum, { overall }) => sum + overall.rejected, 0)
}

function atLeast(what: string, value: number, min: number, of = ''): Check {
  return {
    what,
    measured: `${value.toFixed(3)}${of === '' ? '' : ` (${of})`}`,
    target: `>= ${min}`,
    isMet: value >= min,
  }
}

function atMost(what: string, value: number, max: number): Check {
  return { what, measured: value.toFixed(Number.isInteger(value) ? 0 : 1), target: `<= ${max}`, isMet: value <= max }
}
