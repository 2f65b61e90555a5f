import { setTimeout as sleep } from 'node:timers/promises'
import type { Check } from './figures.js'
import { atMost, eight, limitFactor, recordsAll } from './fleetChecks.js'
import { type Departure, outcomeOf } from './fleetOutcome.js'
import { addressOf, openFleetBench } from './fleetSetup.js'

/** Recorders that die, a database that restarts, and one that comes, under load. */
export async function benchFaults(seed: number): Promise<Check[]> {
  const config = { ...recordsAll, serve: { enabled: false } }
  const bench = await openFleetBench(seed, limitFactor)
  try {
    for (const address of eight) await bench.start(address, config)
    await sleep(35_000)
    const kills: Departure[] = []
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
    const scenario = `seed ${seed}, ${killed} + 1 killed`
    const found = await outcomeOf(bench, scenario, kills, { isOrderly: false, withoutOwnerSeconds: 10 })
    const { truth } = found
    const without = found.without.map(
      ({ longestMs, count }) => `${(longestMs / 1000).toFixed(1)} s at most, of ${count}`,
    )
    console.log(
      `seed ${seed}: ${found.requests} requests, ${truth.stored} fills stored, ${truth.lost} lost, of which responses had shown ${truth.shown}, ${truth.gaps} gaps; books without owner for ${without.join('; ')}`,
    )
    console.log(found.stalls)
    return [...found.checks, atMost(found.named('lost fills in proven stretches'), truth.falseClaims, 0)]
  } finally {
    await bench.close()
  }
}
