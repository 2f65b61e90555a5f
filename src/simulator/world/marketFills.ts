import { type FillProcess, type FillRate } from './evenFills.js'
import { mix, unit } from './hash.js'
import { createOrderTimes, hoursPerWeek } from './orderTimes.js'
import type { CommonFactor } from './prices.js'
import { createShares, type Shares } from './shares.js'

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
