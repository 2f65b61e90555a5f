import type { Check } from './figures.js'
import { atMost, everySeconds, rejectedOf, stallText } from './fleetChecks.js'
import { type FleetBench, settleAndStop } from './fleetSetup.js'
import { askedBooks, fillTruth, longestOverlapMs, longestWithoutOwnerMs } from './fleetTruth.js'

/** Addresses whose recorders went at a moment. */
export interface Departure {
  readonly atMs: number
  readonly gone: ReadonlySet<string>
}

/**
 * Ends the recorders of a fleet and tells what came of departures: how long books were without an owner, and had two, whether the
 * service was asked too often, and whether gaps are the truth about fills. `isOrderly`: those that went had said so before.
 */
export async function outcomeOf(
  bench: FleetBench,
  scenario: string,
  departures: readonly Departure[],
  { isOrderly, withoutOwnerSeconds }: { readonly isOrderly: boolean; readonly withoutOwnerSeconds: number },
) {
  const end = await settleAndStop(bench)
  const { control, world } = bench.simulator
  const journal = control.journal()
  const books = askedBooks(journal)
  const without = departures.map(({ atMs, gone }) => longestWithoutOwnerMs(books, gone, atMs))
  const stops = departures.flatMap(({ atMs, gone }) => [...gone].map((source) => ({ source, atMs })))
  const overlapMs = longestOverlapMs(books, 2.5 * everySeconds * 1000, isOrderly ? stops : [])
  const truth = await fillTruth(bench.database, world, journal, end - 35_000)
  const named = (what: string) => `${scenario}: ${what}`
  const checks: Check[] = [
    atMost(
      named('longest without an owner, s'),
      Math.max(...without.map(({ longestMs }) => longestMs)) / 1000,
      withoutOwnerSeconds,
    ),
    atMost(named('longest that two asked for the same book, s'), overlapMs / 1000, 5),
    atMost(named('requests rejected'), rejectedOf(control.report()), 0),
    atMost(named('lost fills outside of gaps (recall)'), truth.unnamed, 0),
    atMost(named('gaps without a lost fill (precision)'), truth.wrongGaps, 0),
  ]
  return { checks, named, truth, without, requests: journal.length, stalls: stallText(control.stalls()) }
}
