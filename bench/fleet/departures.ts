import { setTimeout as sleep } from 'node:timers/promises'
import type { Stall } from '../../src/simulator/faults.js'
import { atMost, type Check } from '../tools/checks.js'
import { addressOf, countRejected, eight, type FleetBench, limits, withFleet } from './setup.js'
import { askedBooks, longestOverlapMs, longestWithoutOwnerMs } from './owners.js'

const everySeconds = 5

/** All of the market is recorded: the limits decide how much that is. */
const recordsAll = {
  exchange: { limits },
  streams: {
    tickers: { watchSeconds: 0 },
    orderBooks: { everySeconds, depth: 5, select: { busiest: 'all' } },
    rpiOrderBooks: { enabled: false },
    fills: { maxPollSeconds: 30 },
    candles: { select: { busiest: 'all' } },
  },
} as const

/** Addresses whose recorders went at a moment. */
interface Departure {
  readonly atMs: number
  readonly gone: ReadonlySet<string>
}

/** Recorders that die, a database that restarts, and a recorder that joins, under load. */
export async function benchFaults(seed: number): Promise<Check[]> {
  return withFleet(seed, async (bench) => {
    const config = { ...recordsAll, serve: { enabled: false } }
    for (const address of eight) await bench.start(address, config)
    await sleep(35_000)
    const kills: Departure[] = []
    const kill = async (addresses: readonly number[]) => {
      kills.push({ atMs: Date.now(), gone: new Set(addresses.map(addressOf)) })
      await bench.stop(addresses, 'SIGKILL')
      await sleep(15_000)
    }
    const killed = 1 + ((seed - 1) % 3)
    await kill(eight.slice(seed % 5, (seed % 5) + killed))
    await bench.start(9, config)
    await sleep(15_000)
    await bench.restartDatabase()
    await sleep(12_000)
    await kill(bench.running().slice(0, 1))
    const scenario = `seed ${seed}, ${killed} + 1 killed`
    const { without, requests, stalls, checks } = await outcomeOf(bench, scenario, kills)
    const waits = without.map(({ longestMs, count }) => `${(longestMs / 1000).toFixed(1)} s at most, of ${count}`)
    console.log(`seed ${seed}: ${requests} requests; books without owner for ${waits.join('; ')}; ${stalls}`)
    return checks
  })
}

/** Judges departures: how long order books had no owner or two, and whether requests were rejected. */
async function outcomeOf(bench: FleetBench, scenario: string, departures: readonly Departure[]) {
  await bench.stop(bench.running(), 'SIGTERM')
  const { control } = bench.simulator
  const journal = control.journal()
  const books = askedBooks(journal)
  const without = departures.map(({ atMs, gone }) => longestWithoutOwnerMs(books, gone, atMs))
  const withoutMs = Math.max(...without.map(({ longestMs }) => longestMs))
  const overlapMs = longestOverlapMs(books, 2.5 * everySeconds * 1000)
  const checks = [
    atMost(`${scenario}: longest without an owner, s`, withoutMs / 1000, 10, { decimals: 1 }),
    atMost(`${scenario}: longest that two asked for the same book, s`, overlapMs / 1000, 5, { decimals: 1 }),
    atMost(`${scenario}: requests rejected`, countRejected(control.report()), 0),
  ]
  return { checks, without, requests: journal.length, stalls: stallText(control.stalls()) }
}

/** Long stalls explain rejections: the simulator counts in one instant what waited meanwhile. */
function stallText(stalls: readonly Stall[]): string {
  const lengths = stalls.map(({ fromMs, toMs }) => toMs - fromMs).toSorted((a, b) => b - a)
  return `the simulator stood still ${lengths.length} times for 40 ms or more, at most ${(lengths[0] ?? 0).toFixed(0)} ms`
}
