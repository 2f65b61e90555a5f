import { hourMs, type TimeMs } from '../../market/values.js'
import { mix, mixWide, unit } from './hash.js'

/** Length of a run. Its fills share a side and, except for sweeps, a price. 16 runs make a minute. */
export const runMs = 3_750

/** When fills happen and how large they are. Every fill has a stable index; indices ascend with time. */
export interface FillProcess {
  /** Returns the number of fills from the epoch until before `at`. */
  countBefore(at: TimeMs): number
  /** Returns when the fill with this index happens. */
  timeOf(index: number): TimeMs
  /** Returns the size of a fill in lots, at least 1. */
  sizeOf(index: number): number
  /** Returns the sum of the sizes of the fills [from, to), in lots. Its cost does not grow with their number. */
  sizeOfRange(from: number, to: number): number
  /** Visits every run with fills among the indices [from, to) of an hour (counted from the epoch), in order. */
  eachRun(hour: number, from: number, to: number, visit: RunVisitor): void
  /** Returns the sweep that a fill is part of; null if the fill is part of none, and has the price of its run. */
  sweepOf(index: number): Sweep | null
  /** Visits every sweep that has all of its fills among the indices [from, to), in order. */
  eachSweep(from: number, to: number, visit: (sweep: Sweep) => void): void
}

/** An order that eats through several price levels: many fills within one millisecond. */
export interface Sweep {
  readonly first: number
  readonly count: number
}

export type RunVisitor = (run: number, firstIndex: number, count: number) => void

export interface FillRate {
  /** Average number of fills per hour. With `burstiness`, single hours have far more or fewer. */
  readonly perHour: number
  readonly meanSizeLots: number
  /** 0: fills come at an even rate. Towards 1, more and more of them come in bursts. */
  readonly burstiness: number
}

/**
 * Creates fills at the same rate at all hours, with sizes of about the mean. They serve tests that depend on a rate. Time
 * is cut into equal slots, and each has one fill at a place of its own.
 */
export function createEvenFills(key: number, { perHour, meanSizeLots }: FillRate): FillProcess {
  const [placeKey, sizeKey] = [mix(key, 0xc0), mix(key, 0x512e)]
  const slotMs = hourMs / perHour
  // The end of a slot stays free, so that rounding cannot put a fill into the next one.
  const timeOf = (index: number): TimeMs => Math.floor((index + 0.98 * unit(mixWide(placeKey, index))) * slotMs)
  const countBefore = (at: TimeMs): number => {
    const slot = Math.floor(at / slotMs)
    return slot + (timeOf(slot) < at ? 1 : 0)
  }
  // A size is the mean plus the difference of two neighbouring noise values. In a sum, all but two of them cancel out.
  const sizeNoise = (index: number): number => mixWide(sizeKey, index) % meanSizeLots
  return {
    countBefore,
    timeOf,
    sizeOf: (index) => meanSizeLots + sizeNoise(index) - sizeNoise(index - 1),
    sizeOfRange: (from, to) => (to <= from ? 0 : (to - from) * meanSizeLots + sizeNoise(to - 1) - sizeNoise(from - 1)),
    eachRun(hour, from, to, visit) {
      const end = Math.min(to, countBefore((hour + 1) * hourMs))
      for (let first = Math.max(from, countBefore(hour * hourMs)); first < end;) {
        const run = Math.floor(timeOf(first) / runMs)
        const next = Math.min(end, countBefore((run + 1) * runMs))
        visit(run, first, next - first)
        first = next
      }
    },
    sweepOf: () => null,
    eachSweep: () => undefined,
  }
}
