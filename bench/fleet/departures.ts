import { setTimeout as sleep } from 'node:timers/promises'
import type { Stall } from '../../src/simulator/faults.js'
import { atMost, type Check, none } from '../tools/checks.js'
import { addressOf, countRejected, eight, type FleetBench, limits, withFleet } from './setup.js'
import { askedBooks, fillTruth, longestOverlapMs, longestWithoutOwnerMs } from './truth.js'

const firstPort = 18_300
const readyWithinMs = 90_000
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
    const { truth, without, requests, stalls, checks } = await outcomeOf(bench, scenario, kills, {
      isOrderly: false,
      maxWithoutOwnerSeconds: 10,
    })
    const waits = without.map(({ longestMs, count }) => `${(longestMs / 1000).toFixed(1)} s at most, of ${count}`)
    console.log(
      `seed ${seed}: ${requests} requests, ${truth.stored} fills stored, ${truth.lost} lost, of which responses had shown ${truth.shown}, ${truth.gaps} gaps; books without owner for ${waits.join('; ')}`,
    )
    console.log(stalls)
    return [...checks, none(`${scenario}: lost fills in proven stretches`, truth.falseClaims)]
  })
}

/** All eight restarted as for an upgrade: each is stopped and started, and the next follows when it is ready. */
export async function benchRolling(): Promise<Check[]> {
  return withFleet(1, async (bench) => {
    const start = (address: number) => bench.start(address, { ...recordsAll, serve: { port: firstPort + address } })
    for (const address of eight) await start(address)
    for (const address of eight) await untilReady(address)
    await sleep(20_000)
    const restarts: (Departure & { readonly tookMs: number })[] = []
    for (const address of eight) {
      const atMs = Date.now()
      await bench.stop([address], 'SIGTERM')
      await start(address)
      await untilReady(address)
      restarts.push({ atMs, gone: new Set([addressOf(address)]), tookMs: Date.now() - atMs })
    }
    const scenario = 'eight restarted one after the other'
    const { truth, without, stalls, checks } = await outcomeOf(bench, scenario, restarts, {
      isOrderly: true,
      maxWithoutOwnerSeconds: 2,
    })
    const seconds = (ms: readonly number[]) => ms.map((each) => (each / 1000).toFixed(1)).join(', ')
    console.log(
      `restarts of ${seconds(restarts.map(({ tookMs }) => tookMs))} s; books without owner for ${seconds(without.map(({ longestMs }) => longestMs))} s at most; ` +
        `${truth.stored} fills stored, ${truth.lost} lost for want of requests, ${truth.gaps} gaps`,
    )
    console.log(stalls)
    return [...checks, none(`${scenario}: fills lost that a response had shown`, truth.shown)]
  })
}

async function untilReady(address: number): Promise<void> {
  const untilMs = Date.now() + readyWithinMs
  const url = `http://127.0.0.1:${firstPort + address}/readyz`
  while (Date.now() < untilMs) {
    if ((await fetch(url).catch(() => null))?.status === 200) return
    await sleep(100)
  }
  throw new Error(`the recorder of ${addressOf(address)} was not ready within ${readyWithinMs / 1000} s`)
}

interface Expected {
  /** True if the recorders that went had said so before. */
  readonly isOrderly: boolean
  readonly maxWithoutOwnerSeconds: number
}

/**
 * Ends the recorders of a fleet and judges departures: how long order books had no owner or two, whether requests were
 * rejected, and whether gaps are the truth about fills.
 */
async function outcomeOf(
  bench: FleetBench,
  scenario: string,
  departures: readonly Departure[],
  { isOrderly, maxWithoutOwnerSeconds }: Expected,
) {
  // The candles of the last minutes show which gaps are none.
  await sleep(45_000)
  const endMs = Date.now()
  await bench.stop(bench.running(), 'SIGTERM')
  const { control, world } = bench.simulator
  const journal = control.journal()
  const books = askedBooks(journal)
  const without = departures.map(({ atMs, gone }) => longestWithoutOwnerMs(books, gone, atMs))
  const withoutMs = Math.max(...without.map(({ longestMs }) => longestMs))
  const stops = departures.flatMap(({ atMs, gone }) => [...gone].map((source) => ({ source, atMs })))
  const overlapMs = longestOverlapMs(books, 2.5 * everySeconds * 1000, isOrderly ? stops : [])
  const truth = await fillTruth(bench.database, world, journal, endMs - 35_000)
  const checks = [
    atMost(`${scenario}: longest without an owner, s`, withoutMs / 1000, maxWithoutOwnerSeconds, { decimals: 1 }),
    atMost(`${scenario}: longest that two asked for the same book, s`, overlapMs / 1000, 5, { decimals: 1 }),
    atMost(`${scenario}: requests rejected`, countRejected(control.report()), 0),
    none(`${scenario}: lost fills outside of gaps (recall)`, truth.unnamed),
    none(`${scenario}: gaps without a lost fill (precision)`, truth.wrongGaps),
  ]
  return { checks, truth, without, requests: journal.length, stalls: stallText(control.stalls()) }
}

/** Long stalls explain rejections: the simulator counts in one instant what waited meanwhile. */
function stallText(stalls: readonly Stall[]): string {
  const lengths = stalls.map(({ fromMs, toMs }) => toMs - fromMs).toSorted((a, b) => b - a)
  return `the simulator stood still ${lengths.length} times for 40 ms or more, at most ${(lengths[0] ?? 0).toFixed(0)} ms`
}
