import { setTimeout as sleep } from 'node:timers/promises'
import type { Check } from './figures.js'
import { atMost, eight, everySeconds, limitFactor, recordsAll, rejectedOf, stallText } from './fleetChecks.js'
import { addressOf, openFleetBench, settleAndStop } from './fleetSetup.js'
import { askedBooks, fillTruth, longestOverlapMs, longestWithoutOwnerMs } from './fleetTruth.js'

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
    const restarts: { readonly atMs: number; readonly gone: ReadonlySet<string>; readonly tookMs: number }[] = []
    for (const address of eight) {
      const atMs = Date.now()
      await bench.stop([address], 'SIGTERM')
      await bench.start(address, configOf(address))
      await isReady(address)
      restarts.push({ atMs, gone: new Set([addressOf(address)]), tookMs: Date.now() - atMs })
    }
    const end = await settleAndStop(bench)
    const journal = bench.simulator.control.journal()
    const books = askedBooks(journal)
    const stops = restarts.flatMap(({ atMs, gone }) => [...gone].map((source) => ({ source, atMs })))
    const without = restarts.map(({ atMs, gone }) => longestWithoutOwnerMs(books, gone, atMs).longestMs)
    const truth = await fillTruth(bench.database, bench.simulator.world, journal, end - 35_000)
    const seconds = (ms: readonly number[]) => ms.map((each) => (each / 1000).toFixed(1)).join(', ')
    console.log(
      `restarts of ${seconds(restarts.map(({ tookMs }) => tookMs))} s; books without owner for ${seconds(without)} s at most; ` +
        `${truth.stored} fills stored, ${truth.lost} lost for want of requests, ${truth.gaps} gaps`,
    )
    console.log(stallText(bench.simulator.control.stalls()))
    const named = (what: string) => `eight restarted one after the other: ${what}`
    return [
      atMost(named('longest without an owner, s'), Math.max(...without) / 1000, 2),
      atMost(
        named('longest that two asked for the same book, s'),
        longestOverlapMs(books, 2.5 * everySeconds * 1000, stops) / 1000,
        5,
      ),
      atMost(named('requests rejected'), rejectedOf(bench.simulator.control.report()), 0),
      atMost(named('fills lost that a response had shown'), truth.shown, 0),
      atMost(named('lost fills outside of gaps (recall)'), truth.unnamed, 0),
      atMost(named('gaps without a lost fill (precision)'), truth.wrongGaps, 0),
    ]
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
