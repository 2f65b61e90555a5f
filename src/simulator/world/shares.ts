import { mix, mixWide } from './hash.js'

/** An endless row of whole numbers with heavy tails. Their sums are known without adding them up. */
export interface Shares {
  /** Number of members in a block, and their sum. */
  readonly perBlock: number
  readonly blockTotal: number
  /** Returns the sum of the members of a block before its member at `position` (0 to `perBlock`). */
  sumBefore(block: number, position: number): number
  /** Returns the member of a block in which the unit number `amount` lies (0 to below `blockTotal`). */
  memberAt(block: number, amount: number): Member
  /** Visits the members of a block of `least` or more whose units are all among [from, to), in order. */
  eachLarge(block: number, from: number, to: number, least: number, visit: (member: Member) => void): void
}

interface Member {
  readonly position: number
  readonly before: number
  readonly value: number
}

interface ShareOptions {
  /** A block has 2^depth members. */
  readonly depth: number
  readonly blockTotal: number
  /** Inequality of the members. Each halving gives a share between (1-spread)/2 and (1+spread)/2 to the left. */
  readonly spread: number
}

/**
 * Creates a row of shares. Every member is at least 1. The rest of a block is divided between its two halves, and then
 * within each of them. The shares multiply, which makes a few members very large and most small.
 */
export function createShares(key: number, { depth, blockTotal, spread }: ShareOptions): Shares {
  const perBlock = 2 ** depth
  const extra = blockTotal - perBlock
  // The way to the last requested member is kept: the next one is usually its neighbour, and shares most of the way.
  const befores = new Float64Array(depth + 1)
  const counts = new Float64Array(depth + 1)
  let knownBlock = Number.NaN
  let knownPosition = 0
  let blockKey = 0

  const enter = (block: number): void => {
    blockKey = mixWide(key, block)
    knownBlock = block
    knownPosition = -1
    befores[0] = 0
    counts[0] = extra
  }

  /** Goes down to a member. `befores` and `counts` then hold the extra units at each level of the way. */
  const goTo = (block: number, position: number): void => {
    if (block !== knownBlock) enter(block)
    let level = knownPosition < 0 ? 0 : depth - (32 - Math.clz32(position ^ knownPosition))
    for (; level < depth; level++) {
      const node = (1 << level) | (position >> (depth - level))
      const count = counts[level] ?? 0
      const before = befores[level] ?? 0
      const left = leftOf(blockKey, node, count, spread)
      const isRight = (position >> (depth - level - 1)) & 1
      befores[level + 1] = isRight ? before + left : before
      counts[level + 1] = isRight ? count - left : left
    }
    knownPosition = position
  }

  return {
    perBlock,
    blockTotal,
    sumBefore(block, position) {
      if (position >= perBlock) return blockTotal
      if (position <= 0) return 0
      goTo(block, position)
      return position + (befores[depth] ?? 0)
    },
    memberAt(block, amount) {
      if (block !== knownBlock) enter(block)
      let before = 0
      let count = extra
      let node = 1
      for (let width = perBlock; width > 1;) {
        const left = leftOf(blockKey, node, count, spread)
        width /= 2
        const leftTotal = left + width
        if (amount < before + leftTotal) {
          count = left
          node *= 2
        } else {
          before += leftTotal
          count -= left
          node = node * 2 + 1
        }
      }
      return { position: node - perBlock, before, value: count + 1 }
    },
    eachLarge(block, from, to, least, visit) {
      if (block !== knownBlock) enter(block)
      const descend = (node: number, start: number, width: number, before: number, count: number): void => {
        if (count + 1 < least || before >= to || before + width + count <= from) return
        if (width === 1) {
          if (before >= from && before + 1 + count <= to) visit({ position: start, before, value: count + 1 })
          return
        }
        const left = leftOf(blockKey, node, count, spread)
        const half = width / 2
        descend(node * 2, start, half, before, left)
        descend(node * 2 + 1, start + half, half, before + half + left, count - left)
      }
      descend(1, 0, perBlock, 0, extra)
    },
  }
}

/** Returns how many of `count` extra units go to the left half. */
function leftOf(blockKey: number, node: number, count: number, spread: number): number {
  if (count === 0) return 0
  const hash = mix(blockKey, node)
  const share = 0.5 + spread * ((hash >>> 16) / 65_536 - 0.5)
  return Math.floor(count * share + (hash & 0xffff) / 65_536)
}
