import type { Category } from '../market/category.js'
import type { TimeMs } from '../market/values.js'
import { type Fault, faultSchema, type FaultSet } from './faults.js'
import type { Journal, ServedResponse } from './journal.js'
import type { Limiter, Report } from './limits.js'
import type { Stall, StallWatch } from './stalls.js'
import { type Quirks, quirksSchema } from './world/quirks.js'
import type { Listing, ListingRequest } from './world/listing.js'
import { splitAt } from './world/splits.js'
import type { World } from './world/world.js'

/** Operations that a test may perform on the service while it runs. */
export interface Control {
  /** Requests, rejections and highest rates of each source address. */
  report(): Report
  resetReport(): void
  setFaults(faults: readonly Fault[]): void
  addFault(fault: Fault): void
  clearFaults(): void
  /** Changes the quirks that are named. Throws a ZodError for a value that is not allowed. */
  setQuirks(quirks: Partial<Quirks>): void
  quirks(): Quirks
  /** Lists an instrument: it is announced and trades from its `launchTime`. Replaces one of the same name. */
  list(request: ListingRequest & { readonly launchTime: TimeMs }): Listing
  /** Trading stops at `atMs`; the row disappears at `removedAtMs` (default: at once). */
  delist(category: Category, symbol: string, atMs: TimeMs, removedAtMs?: TimeMs): void
  /** Changes anything else of an instrument, such as its status or precision. */
  amend(category: Category, symbol: string, change: Partial<Listing>): void
  /**
   * Splits an instrument: one unit becomes `factor`, and candles from before are told adjusted from then on. Takes effect at
   * the next boundary between runs of fills, at most 3.75 s after `atMs`, which is returned.
   */
  split(category: Category, symbol: string, factor: number, atMs: TimeMs, relists?: boolean): TimeMs
  /** Every response that was served, in order; empty unless the journal is switched on. */
  journal(): readonly ServedResponse[]
  clearJournal(): void
  /** Times when this process was stalled and counted arrivals late. Empty unless the journal is switched on. */
  stalls(): readonly Stall[]
}

interface ControlParts {
  readonly world: World
  readonly limiter: Limiter
  readonly faults: FaultSet
  readonly journal: Journal
  /** Null: not watched. */
  readonly stalls: StallWatch | null
  readonly quirks: { current: Quirks }
  /** Called after the faults have changed. */
  readonly onFaults: () => void
}

export function createControl(parts: ControlParts): Control {
  const { world, limiter, faults, journal, stalls, quirks, onFaults } = parts
  const setFaults = (list: readonly Fault[]): void => {
    // All faults are checked before the first is set, so that a wrong list changes nothing.
    for (const fault of list) faultSchema.parse(fault)
    faults.set(list)
    onFaults()
  }
  return {
    report: () => limiter.report(),
    resetReport: () => limiter.reset(),
    setFaults,
    addFault(fault) {
      faults.add(fault)
      onFaults()
    },
    clearFaults: () => setFaults([]),
    setQuirks(changes) {
      quirks.current = quirksSchema.parse({ ...quirks.current, ...changes })
    },
    quirks: () => quirks.current,
    list: (request) => world.put(request),
    delist: (category, symbol, atMs, removedAtMs = atMs) =>
      world.amend(category, symbol, { offTime: atMs, removeTime: removedAtMs }),
    amend: (category, symbol, change) => world.amend(category, symbol, change),
    split(category, symbol, factor, atMs, relists = true) {
      const split = splitAt(atMs, factor, relists)
      const before = world.find(category, symbol)?.splits ?? []
      world.amend(category, symbol, { splits: [...before, split].toSorted((a, b) => a.at - b.at) })
      return split.at
    },
    journal: () => journal.list(),
    clearJournal: () => journal.clear(),
    stalls: () => stalls?.list() ?? [],
  }
}
