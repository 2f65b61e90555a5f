import { minuteMs, type TimeMs } from '../../market/values.js'
import { runMs, type RunVisitor } from './evenFills.js'
import { mix, unit } from './hash.js'
import { type CommonFactor, minutesPerWeek } from './prices.js'

const weekMs = minutesPerWeek * minuteMs
export const hoursPerWeek = 168
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
export function createOrderTimes(key: number, perWeek: number, burstiness: number, common: CommonFactor): OrderTimes {
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
