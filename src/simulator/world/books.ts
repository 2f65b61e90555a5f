import type { TimeMs } from '../../market/values.js'
import { fixed, fixedWithTail, mix, mixWide } from './hash.js'
import { isTrading } from './listing.js'
import type { Market } from './market.js'

/** A book is rebuilt this often, in milliseconds. Requests that follow sooner get the same snapshot. */
export const bookStepMs = 100

type Level = readonly [price: string, size: string] | readonly [price: string, size: string, rpiSize: string]

/** A book as the service gives it, with numbers as the text that is sent. Asks ascend, bids descend. */
export interface BookRow {
  readonly a: readonly Level[]
  readonly b: readonly Level[]
  readonly ts: string
}

type BookKind = 'plain' | 'rpi'

interface BookOptions {
  readonly limit: number
  readonly kind: BookKind
  readonly isEmpty: boolean
  /** Largest time by which a book's time may be ahead of the moment. */
  readonly aheadMs: number
}

/** Returns the book as the service gives it at a moment. */
export function bookRow(market: Market, at: TimeMs, { limit, kind, isEmpty, aheadMs }: BookOptions): BookRow {
  const { book: trait, launchTime } = market.listing
  const now = Math.floor(at / bookStepMs) * bookStepMs
  const state = trait === 'still' || trait === 'frozen' ? launchTime : now
  const ts = String((trait === 'frozen' ? state : now) + (mix(market.key, 0xa4ead) % (aheadMs + 1)))
  if (isEmpty || trait === 'empty' || !isTrading(market.listing, now)) return { a: [], b: [], ts }
  return { a: bookSide(market, 'ask', state, limit, kind), b: bookSide(market, 'bid', state, limit, kind), ts }
}

/** Returns one side of the book at a moment: at most `depth` levels, the best first. */
export function bookSide(
  market: Market,
  side: 'bid' | 'ask',
  at: TimeMs,
  depth: number,
  kind: BookKind,
): readonly Level[] {
  const { priceDecimals, sizeDecimals, meanSizeLots, extraSizeDigits, hasRpi } = market.listing
  const { levelGap, halfSpread } = market
  const mid = market.mid(at)
  const sideKey = market.key ^ (side === 'bid' ? 0xb1d : 0xa5c)
  // A size belongs to a price and lives for some seconds, so that neighbouring snapshots resemble each other.
  const sizeKey = sideKey ^ Math.floor(at / 2_000)
  const levels: Level[] = []
  for (let level = 0; level < depth; level++) {
    const jitter = level === 0 ? 0 : mixWide(sideKey, level + Math.floor(at / 700) * 1_024) % levelGap
    const distance = halfSpread + level * levelGap + jitter
    const ticks = side === 'bid' ? mid - distance : mid + distance
    if (ticks <= 0) break
    const hash = mixWide(sizeKey, ticks)
    const lots = 1 + (hash % (meanSizeLots * 8))
    const price = fixed(ticks, priceDecimals)
    const size = fixedWithTail(lots, sizeDecimals, extraSizeDigits, hash)
    if (kind === 'plain') levels.push([price, size])
    else levels.push([price, size, fixed(hasRpi && hash % 3 === 0 ? hash % (meanSizeLots * 2) : 0, sizeDecimals)])
  }
  return levels
}
