import { hourMs, minuteMs, type TimeMs } from '../../market/values.js'
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
  /** Average number of fills per hour. With a common factor, single hours have far more or fewer. */
  readonly perHour: number
  readonly meanSizeLots: number
  /** 0: fills are spread evenly. Towards 1, more and more of them come in bursts. */
  readonly burstiness: number
}

/**
 * Creates fills without the traits of a market: no sweeps, the same rate at all hours, sizes of about the mean. They
 * serve tests that depend on a rate, and comparisons.
 *
 * The number of fills up to an hour is a straight line plus noise smaller than one step. No sum over earlier hours is
 * needed. Within the hour the fills are divided by halving: the hour into minutes, the minute into runs, the run into
 * milliseconds. Shares drawn at each halving multiply, which gives bursts if `burstiness` is not 0.
 */
export function createEvenFills(key: number, rate: FillRate): FillProcess {
  const { perHour, meanSizeLots } = rate
  const spread = rate.burstiness
  const countKey = mix(key, 0xc0)
  const sizeKey = mix(key, 0x512e)

  const countBeforeHour = (hour: number): number => Math.floor(perHour * (hour + unit(mix(countKey, hour))))

  const leftShare = (hourKey: number, node: number, count: number): number => {
    const hash = mix(hourKey, node)
    const share = 0.5 + spread * ((hash >>> 16) / 65_536 - 0.5)
    // The remaining fraction of a fill goes to either side by chance. Otherwise single fills would all drift one way.
    return Math.floor(count * share + (hash & 0xffff) / 65_536)
  }

  // A size is the mean plus the difference of two neighbouring noise values. In a sum, all but two of them cancel out.
  const sizeNoise = (index: number): number => mixWide(sizeKey, index) % meanSizeLots

  /**
   * Finds a millisecond of an hour: the one at `at`, or the one with the fill `index`. The search stops early where
   * there are no fills. The result is valid until the next call.
   */
  const found = { start: 0, first: 0 }
  const find = (hour: number, at: TimeMs | null, index: number): typeof found => {
    let first = countBeforeHour(hour)
    let count = countBeforeHour(hour + 1) - first
    const hourKey = mix(key, hour, 0x40)
    let start = hour * hourMs
    for (let width = hourMs, node = 1; width > 1 && count > 0;) {
      const half = halfOf(width)
      const left = leftShare(hourKey, node, count)
      node *= 2
      if (at === null ? index < first + left : at < start + half) {
        count = left
        width = half
      } else {
        first += left
        count -= left
        start += half
        width -= half
        node++
      }
    }
    found.start = start
    found.first = first
    return found
  }

  return {
    countBefore: (at) => find(Math.floor(at / hourMs), at, 0).first,

    timeOf(index) {
      let hour = Math.floor(index / perHour)
      while (countBeforeHour(hour) > index) hour--
      while (countBeforeHour(hour + 1) <= index) hour++
      return find(hour, null, index).start
    },

    sizeOf: (index) => meanSizeLots + sizeNoise(index) - sizeNoise(index - 1),

    sizeOfRange: (from, to) => (to <= from ? 0 : (to - from) * meanSizeLots + sizeNoise(to - 1) - sizeNoise(from - 1)),

    eachRun(hour, from, to, visit) {
      const hourKey = mix(key, hour, 0x40)
      const descend = (start: number, width: number, node: number, first: number, count: number): void => {
        if (count === 0 || first >= to || first + count <= from) return
        if (width === runMs) {
          const begin = Math.max(first, from)
          visit(start / runMs, begin, Math.min(first + count, to) - begin)
          return
        }
        const half = halfOf(width)
        const left = leftShare(hourKey, node, count)
        descend(start, half, node * 2, first, left)
        descend(start + half, width - half, node * 2 + 1, first + left, count - left)
      }
      const first = countBeforeHour(hour)
      descend(hour * hourMs, hourMs, 1, first, countBeforeHour(hour + 1) - first)
    },

    sweepOf: () => null,
    eachSweep: () => undefined,
  }
}

/** Returns half of a width, in whole minutes if there are several. So minutes and their runs are nodes of the tree. */
function halfOf(width: number): number {
  return width > minuteMs ? Math.floor(width / minuteMs / 2) * minuteMs : Math.floor(width / 2)
}
