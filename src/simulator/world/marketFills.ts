import { mix, unit } from './hash.js'
import { type CommonFactor, minutesPerWeek } from './prices.js'
import { createShares, type Shares } from './shares.js'
import { minuteMs, type TimeMs } from '../../market/values.js'

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

/** An order with this many fills counts as a sweep, because it has eaten through the best price. */
const sweepFrom = 16

/**
 * Creates fills with the traits of a market. Three things are drawn, each by halving a number again and again, so that
 * sums are known without everything before: the times of orders, the number of fills of an order, and the sizes of
 * fills. An order usually has one fill, and sometimes hundreds. All of them happen in one millisecond.
 */
export function createMarketFills(key: number, rate: FillRate, common: CommonFactor): FillProcess {
  const own = (what: number): number => unit(mix(key, what, 0x0d11))
  const orders = createShares(mix(key, 0x0e), {
    depth: 9,
    blockTotal: Math.round(512 * (2.3 + 1.6 * own(1))),
    spread: 0.97,
  })
  const sizes = createShares(mix(key, 0x512e), {
    depth: 8,
    blockTotal: 256 * rate.meanSizeLots,
    spread: 0.86 + 0.14 * own(2),
  })
  const perWeek = (rate.perHour * hoursPerWeek * orders.perBlock) / orders.blockTotal
  const times = createOrderTimes(key, perWeek, rate.burstiness, common)

  const fillsBeforeOrder = (order: number): number => sumBefore(orders, order)
  // The last order is remembered, because its fills are usually requested one after the other.
  let known = { order: -1, first: 0, count: 0 }
  let knownTime = { order: -1, at: 0 }
  const orderOf = (index: number): typeof known => {
    if (index >= known.first && index < known.first + known.count) return known
    const block = Math.floor(index / orders.blockTotal)
    const { position, before, value } = orders.memberAt(block, index - block * orders.blockTotal)
    known = { order: block * orders.perBlock + position, first: block * orders.blockTotal + before, count: value }
    return known
  }

  return {
    countBefore: (at) => fillsBeforeOrder(times.countBefore(at)),

    timeOf(index) {
      const { order } = orderOf(index)
      if (order !== knownTime.order) knownTime = { order, at: times.timeOf(order) }
      return knownTime.at
    },

    sizeOf: (index) => differenceOf(sizes, index, index + 1),
    sizeOfRange: (from, to) => (to <= from ? 0 : differenceOf(sizes, from, to)),

    sweepOf(index) {
      const { first, count } = orderOf(index)
      return count >= sweepFrom ? { first, count } : null
    },

    eachSweep(from, to, visit) {
      if (to - from < sweepFrom) return
      for (let block = Math.floor(from / orders.blockTotal); block * orders.blockTotal < to; block++) {
        const start = block * orders.blockTotal
        orders.eachLarge(block, from - start, to - start, sweepFrom, ({ before, value }) => {
          visit({ first: start + before, count: value })
        })
      }
    },

    eachRun(hour, from, to, visit) {
      let known = -1
      times.eachRun(hour, (run, first, count) => {
        // The end of a run is usually the beginning of the next one, so it is not computed again.
        const begin = known === -1 ? fillsBeforeOrder(first) : known
        known = fillsBeforeOrder(first + count)
        const [kept, keptEnd] = [Math.max(begin, from), Math.min(known, to)]
        if (kept < keptEnd) visit(run, kept, keptEnd - kept)
      })
    },
  }
}

/** Returns the sum of the first `count` members of a row of shares. */
function sumBefore(shares: Shares, count: number): number {
  const block = Math.floor(count / shares.perBlock)
  return block * shares.blockTotal + shares.sumBefore(block, count - block * shares.perBlock)
}

/** Returns the sum of the members [from, to). A difference of two total sums might be too large to be exact. */
function differenceOf(shares: Shares, from: number, to: number): number {
  const first = Math.floor(from / shares.perBlock)
  const last = Math.floor(to / shares.perBlock)
  // The order is ascending, so that the second sum can reuse the position that `shares` remembers.
  const before = shares.sumBefore(first, from - first * shares.perBlock)
  const until = shares.sumBefore(last, to - last * shares.perBlock)
  return (last - first) * shares.blockTotal + until - before
}

const weekMs = minutesPerWeek * minuteMs
const hoursPerWeek = 168
/** Parts of a minute that are longer than this have common bursts. Within shorter ones, each instrument has its own. */
const commonFromMs = 1_000

/** A part of time, in the unit that it is divided to, with its place in the tree of halves. */
interface Part {
  start: number
  width: number
  node: number
  /** Number of orders before the part, and in it. */
  first: number
  count: number
}

/** When the orders of an instrument come. */
interface OrderTimes {
  /** Returns the number of orders from the epoch until before `at`. */
  countBefore(at: TimeMs): number
  timeOf(order: number): TimeMs
  /** Visits every run of an hour that has orders, in order. */
  eachRun(hour: number, visit: RunVisitor): void
}

/**
 * Creates the times of orders. A week's orders are divided by the common activity and the instrument's own noise, down
 * to single milliseconds. The shares multiply, so that bursts come in bursts.
 */
function createOrderTimes(key: number, perWeek: number, burstiness: number, common: CommonFactor): OrderTimes {
  const countKey = mix(key, 0xc0)
  const ordersBeforeWeek = (week: number): number => Math.floor(perWeek * (week + 0.3 * unit(mix(countKey, week))))
  const wholeWeek = (week: number): Part => {
    const first = ordersBeforeWeek(week)
    return { start: 0, width: minutesPerWeek, node: 1, first, count: ordersBeforeWeek(week + 1) - first }
  }
  /** Finds a millisecond: the one at `at`, or the one with the order `order`. Stops early where there are no orders. */
  const find = (week: number, at: TimeMs | null, order: number): Part => {
    const ofMinutes = minuteHalves(mix(key, week, 0x40), common.week(week), burstiness)
    const atMinute = at === null ? null : Math.floor((at - week * weekMs) / minuteMs)
    const part = wholeWeek(week)
    while (part.width > 1 && part.count > 0) halve(part, ofMinutes(part), atMinute, order)
    const minute = week * minutesPerWeek + part.start
    const ofMilliseconds = millisecondHalves(minute, mix(key, minute, 0x41), common, burstiness)
    Object.assign(part, { start: minute * minuteMs, width: minuteMs, node: 1 })
    while (part.width > 1 && part.count > 0) halve(part, ofMilliseconds(part), at, order)
    return part
  }
  return {
    countBefore: (at) => find(Math.floor(at / weekMs), at, 0).first,

    timeOf(order) {
      let week = Math.floor(order / perWeek)
      while (ordersBeforeWeek(week) > order) week--
      while (ordersBeforeWeek(week + 1) <= order) week++
      return find(week, null, order).start
    },

    eachRun(hour, visit) {
      const week = Math.floor(hour / hoursPerWeek)
      const firstMinute = (hour - week * hoursPerWeek) * 60
      const isOutside = ({ start, width }: Part): boolean => start >= firstMinute + 60 || start + width <= firstMinute
      const ofMinutes = minuteHalves(mix(key, week, 0x40), common.week(week), burstiness)
      descend(wholeWeek(week), 1, ofMinutes, isOutside, ({ start, first, count }) => {
        const minute = week * minutesPerWeek + start
        const whole = { start: minute * minuteMs, width: minuteMs, node: 1, first, count }
        const ofMilliseconds = millisecondHalves(minute, mix(key, minute, 0x41), common, burstiness)
        descend(whole, runMs, ofMilliseconds, null, (run) => visit(run.start / runMs, run.first, run.count))
      })
    },
  }
}

/** Returns how many orders of a part come in its first half. */
type FirstHalf = (part: Readonly<Part>) => number

/** @param path the common activity of the week, summed up minute by minute */
function minuteHalves(weekKey: number, path: Float64Array, burstiness: number): FirstHalf {
  return ({ start, width, node, count }) => {
    const middle = path[start + (width >> 1)] ?? 0
    const odds = ((path[start + width] ?? 0) - middle) / (middle - (path[start] ?? 0))
    const hash = mix(weekKey, node)
    return rounded(count, 1 / (1 + odds * Math.exp(burstiness * ((hash >>> 16) / 32_768 - 1))), hash)
  }
}

function millisecondHalves(minute: number, minuteKey: number, common: CommonFactor, burstiness: number): FirstHalf {
  return ({ start, width, node, count }) => {
    const hash = mix(minuteKey, node)
    const isCommon = width > commonFromMs
    // In some runs an order sets off others within milliseconds. In most runs, each order comes by itself.
    const isSetOff = !isCommon && unit(mix(minuteKey, Math.floor(start / runMs), 0x5e1f)) < burstiness * 0.6
    const lean = isCommon ? burstiness / 2 : isSetOff ? 8 : 1 + burstiness
    const commonLean = isCommon ? 1.4 * common.lean(minute, node) : 0
    return rounded(count, 1 / (1 + Math.exp(commonLean + lean * ((hash >>> 16) / 32_768 - 1))), hash)
  }
}

/** Returns a share of `count` as a whole number, rounded by chance. */
function rounded(count: number, share: number, hash: number): number {
  return Math.floor(count * share + (hash & 0xffff) / 65_536)
}

/** Narrows the part to the half that a search needs. The first half has `left` orders. */
function halve(part: Part, left: number, at: number | null, order: number): void {
  const half = part.width >> 1
  part.node *= 2
  if (at === null ? order < part.first + left : at < part.start + half) {
    part.count = left
    part.width = half
  } else {
    part.first += left
    part.count -= left
    part.start += half
    part.width -= half
    part.node++
  }
}

/** Visits the parts of the width `until` that have orders, in order. Leaves out those that `isOutside` names. */
function descend(
  part: Part,
  until: number,
  firstHalf: FirstHalf,
  isOutside: ((part: Part) => boolean) | null,
  visit: (part: Part) => void,
): void {
  if (part.count === 0 || isOutside?.(part) === true) return
  if (part.width === until) return visit(part)
  const { start, width, node, first, count } = part
  const left = firstHalf(part)
  const half = width >> 1
  descend({ start, width: half, node: node * 2, first, count: left }, until, firstHalf, isOutside, visit)
  const second = {
    start: start + half,
    width: width - half,
    node: node * 2 + 1,
    first: first + left,
    count: count - left,
  }
  descend(second, until, firstHalf, isOutside, visit)
}
