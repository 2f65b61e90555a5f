import { setTimeout as sleep } from 'node:timers/promises'
import type { Check } from './figures.js'
import { atMost, eight, limitFactor, recordsAll } from './fleetChecks.js'
import { type Departure, outcomeOf } from './fleetOutcome.js'
import { addressOf, openFleetBench } from './fleetSetup.js'

const firstPort = 18_300
const readyWithinMs = 90_000

/** All eight restarted one after the other, as for an upgrade: each is stopped, started, and the next follows when it is ready. */
export async function benchRolling(): Promise<Check[]> {
  const configOf = (address: number) => ({ ...recordsAll, serve: { port: firstPort + address } })
  const bench = await openFleetBench(1, limitFactor)
  try {
    for (const address of eight) await bench.start(address, configOf(address))
    for (const address of eight) await isReady(address)
    await sleep(20_000)
    const restarts: (Departure & { readonly tookMs: number })[] = []
    for (const address of eight) {
      const atMs = Date.now()
      await bench.stop([address], 'SIGTERM')
      await bench.start(address, configOf(address))
      await isReady(address)
      restarts.push({ atMs, gone: new Set([addressOf(address)]), tookMs: Date.now() - atMs })
    }
    const scenario = 'eight restarted one after the other'
    const found = await outcomeOf(bench, scenario, restarts, { isOrderly: true, withoutOwnerSeconds: 2 })
    const { truth } = found
    const seconds = (ms: readonly number[]) => ms.map((each) => (each / 1000).toFixed(1)).join(', ')
    console.log(
      `restarts of ${seconds(restarts.map(({ tookMs }) => tookMs))} s; books without owner for ${seconds(found.without.map(({ longestMs }) => longestMs))} s at most; ` +
        `${truth.stored} fills stored, ${truth.lost} lost for want of requests, ${truth.gaps} gaps`,
    )
    console.log(found.stalls)
    return [...found.checks, atMost(found.named('fills lost that a response had shown'), truth.shown, 0)]
  } finally {
    await bench.close()
  }
}

async function isReady(address: number): Promise<void> {
  const untilMs = Date.now() + readyWithinMs
  const url = `http://127.0.0.1:${firstPort + address}/readyz`
  while (Date.now() < untilMs) {
    const status = await fetch(url).then(
      (response) => response.status,
      () => 0,
    )
    if (status === 200) return
    await sleep(100)
  }
  throw new Error(`the recorder of ${addressOf(address)} was not ready within ${readyWithinMs / 1000} s`)
}
