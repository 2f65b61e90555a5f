import { setTimeout as sleep } from 'node:timers/promises'
import type { Check } from './figures.js'
import { atMost, eight, everySeconds, limitFactor, recordsAll, rejectedOf, stallText } from './fleetChecks.js'
import { addressOf, openFleetBench, settleAndStop } from './fleetSetup.js'
import { askedBooks, fillTruth, longestOverlapMs, longestWithoutOwnerMs } from './fleetTruth.js'

/** Recorders that die, a database that restarts, and one that comes, under load. */
export async function benchFaults(seed: number): Promise<Check[]> {
  const config = { ...recordsAll, serve: { enabled: false } }
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
    const truth = await fillTruth(bench.database, bench.simulator.world, journal, end - 35_000)
    console.log(
      `seed ${seed}: ${journal.length} requests, ${truth.stored} fills stored, ${truth.lost} lost, of which responses had shown ${truth.shown}, ${truth.gaps} gaps; books without owner for ${without.map(({ longestMs, count }) => `${(longestMs / 1000).toFixed(1)} s at most, of ${count}`).join('; ')}`,
    )
    console.log(stallText(bench.simulator.control.stalls()))
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
