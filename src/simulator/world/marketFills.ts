import { minuteMs, type TimeMs } from '../../market/values.js'
import { type CommonFactor, minutesPerWeek } from './prices.js'
import { type FillProcess, type FillRate, runMs } from './evenFills.js'
import { mix, unit } from './hash.js'
import { createShares, type Shares } from './shares.js'

const weekMs = minutesPerWeek * minuteMs
const hoursPerWeek = 168

/** An order with this many fills counts as a sweep, because it has eaten through the best price. */
const sweepFrom = 16
/** Parts of a minute that are longer than this have common bursts. Within shorter ones, each instrument has its own. */
const commonFromMs = 1_000

/**
 * Creates fills with the traits of a market. Three things are drawn, each by halving a number again and again, so that
 * sums are known without everything before:
 *
 * - The times of orders. A week's orders are divided by the common activity and the instrument's own noise, down to
 *   single milliseconds. The shares multiply, so that bursts come in bursts.
 * - The number of fills of an order: usually one, sometimes hundreds. All of them happen in one millisecond.
 * - The sizes of fills.
 */
export function createMarketFills(key: number, rate: FillRate, common: CommonFactor): FillProcess {
  const countKey = mix(key, 0xc0)
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
  const { burstiness } = rate

  const ordersBeforeWeek = (week: number): number => Math.floor(perWeek * (week + 0.3 * unit(mix(countKey, week))))

  /** Returns how many of `count` orders come in the first half of a part. `lean` bounds the difference by chance. */
  const leftOf = (partKey: number, node: number, count: number, commonLean: number, lean: number): number => {
    const hash = mix(partKey, node)
    const share = 1 / (1 + Math.exp(commonLean + lean * ((hash >>> 16) / 32_768 - 1)))
    return Math.floor(count * share + (hash & 0xffff) / 65_536)
  }
  /** Returns how many of `count` orders come in the first half of `width` minutes, from minute `start` of a week. */
  const leftOfMinutes = (
    weekKey: number,
    path: Float64Array,
    node: number,
    start: number,
    width: number,
    count: number,
  ) => {
    const middle = path[start + (width >> 1)] ?? 0
    const odds = ((path[start + width] ?? 0) - middle) / (middle - (path[start] ?? 0))
    const hash = mix(weekKey, node)
    const share = 1 / (1 + odds * Math.exp(burstiness * ((hash >>> 16) / 32_768 - 1)))
    return Math.floor(count * share + (hash & 0xffff) / 65_536)
  }
  const leftOfMilliseconds = (
    minute: number,
    minuteKey: number,
    node: number,
    start: number,
    width: number,
    count: number,
  ) => {
    if (width > commonFromMs) return leftOf(minuteKey, node, count, 1.4 * common.lean(minute, node), burstiness / 2)
    // In some runs an order sets off others within milliseconds. In most runs, each order comes by itself.
    const isSetOff = unit(mix(minuteKey, Math.floor(start / runMs), 0x5e1f)) < burstiness * 0.6
    return leftOf(minuteKey, node, count, 0, isSetOff ? 8 : 1 + burstiness)
  }

  /** The part of time that a search has come to. `first` and `count` are the orders before it and in it. */
  const part = { start: 0, width: 0, node: 1, first: 0, count: 0 }
  /** Narrows the part to the half that the search needs. The first half has `left` orders. */
  const halve = (left: number, at: number | null, order: number): void => {
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
  /**
   * Finds a millisecond: the one at `at`, or the one with the order `order`. The search stops early where there are no
   * orders. The result is valid until the next call.
   */
  const find = (week: number, at: TimeMs | null, order: number): typeof part => {
    const weekKey = mix(key, week, 0x40)
    const path = common.week(week)
    const atMinute = at === null ? null : Math.floor((at - week * weekMs) / minuteMs)
    part.start = 0
    part.width = minutesPerWeek
    part.node = 1
    part.first = ordersBeforeWeek(week)
    part.count = ordersBeforeWeek(week + 1) - part.first
    while (part.width > 1 && part.count > 0)
      halve(leftOfMinutes(weekKey, path, part.node, part.start, part.width, part.count), atMinute, order)
    const minute = week * minutesPerWeek + part.start
    const minuteKey = mix(key, minute, 0x41)
    part.start = minute * minuteMs
    part.width = minuteMs
    part.node = 1
    while (part.width > 1 && part.count > 0)
      halve(leftOfMilliseconds(minute, minuteKey, part.node, part.start, part.width, part.count), at, order)
    return part
  }
  const weekOfOrder = (order: number): number => {
    let week = Math.floor(order / perWeek)
    while (ordersBeforeWeek(week) > order) week--
    while (ordersBeforeWeek(week + 1) <= order) week++
    return week
  }

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
    countBefore: (at) => fillsBeforeOrder(find(Math.floor(at / weekMs), at, 0).first),

    timeOf(index) {
      const { order } = orderOf(index)
      if (order !== knownTime.order) knownTime = { order, at: find(weekOfOrder(order), null, order).start }
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
      const week = Math.floor(hour / hoursPerWeek)
      const weekKey = mix(key, week, 0x40)
      const path = common.week(week)
      const firstMinute = (hour - week * hoursPerWeek) * 60
      let known = -1
      const visitRun = (run: number, first: number, count: number): void => {
        // The end of a run is usually the beginning of the next one, so it is not computed again.
        const begin = known === -1 ? fillsBeforeOrder(first) : known
        known = fillsBeforeOrder(first + count)
        const [kept, keptEnd] = [Math.max(begin, from), Math.min(known, to)]
        if (kept < keptEnd) visit(run, kept, keptEnd - kept)
      }
      const descendMinute = (
        minute: number,
        minuteKey: number,
        node: number,
        start: number,
        width: number,
        first: number,
        count: number,
      ): void => {
        if (count === 0) return
        if (width === runMs) return visitRun(start / runMs, first, count)
        const left = leftOfMilliseconds(minute, minuteKey, node, start, width, count)
        const half = width >> 1
        descendMinute(minute, minuteKey, node * 2, start, half, first, left)
        descendMinute(minute, minuteKey, node * 2 + 1, start + half, width - half, first + left, count - left)
      }
      const descend = (node: number, start: number, width: number, first: number, count: number): void => {
        if (count === 0 || start >= firstMinute + 60 || start + width <= firstMinute) return
        if (width === 1) {
          const minute = week * minutesPerWeek + start
          return descendMinute(minute, mix(key, minute, 0x41), 1, minute * minuteMs, minuteMs, first, count)
        }
        const left = leftOfMinutes(weekKey, path, node, start, width, count)
        const half = width >> 1
        descend(node * 2, start, half, first, left)
        descend(node * 2 + 1, start + half, width - half, first + left, count - left)
      }
      const first = ordersBeforeWeek(week)
      descend(1, 0, minutesPerWeek, first, ordersBeforeWeek(week + 1) - first)
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
