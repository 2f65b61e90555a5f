import type { Candle } from '../../src/market/candle.js'
import type { Fill } from '../../src/market/rows.js'
import { aCandle, aFill } from './marketRows.js'

const hourMs = 3_600_000
const begin = Date.UTC(2026, 2, 1)
export const candleSeries = { category: 'SPOT', symbol: 'BUSYUSDT', type: 'market', interval: '1H' } as const
export const fillSeries = ['BUSYUSDT', 'QUIETUSDT'].map((symbol) => ({ category: 'SPOT', symbol }) as const)
export type FillSeries = (typeof fillSeries)[number]

/** A small market: fills of two instruments, and hourly candles, which the service corrects now and then. */
export class ArchiveMarket {
  now = begin + 24 * hourMs
  readonly #fills = new Map<string, Fill[]>()
  readonly #versions = new Map<number, number>()
  readonly #random: () => number
  #until = begin

  constructor(random: () => number) {
    this.#random = random
    this.pass(0)
  }

  /** Lets hours pass, in which fills happen. */
  pass(hours: number): void {
    this.now += Math.floor(hours * hourMs)
    for (const { symbol } of fillSeries) {
      const known = this.#fills.get(symbol) ?? []
      const meanMs = symbol === 'BUSYUSDT' ? 2 * hourMs : 40 * hourMs
      let ts = this.#until
      while ((ts += Math.ceil(-Math.log(1 - this.#random()) * meanMs)) < this.now - 5_000)
        known.push(aFill({ symbol, ts, execId: `${symbol} ${ts}`, price: String(1 + known.length) }))
      this.#fills.set(symbol, known)
    }
    this.#until = this.now
  }

  fills({ symbol }: FillSeries): readonly Fill[] {
    return this.#fills.get(symbol) ?? []
  }

  /** Corrects the close of a candle. */
  correct(openTime: number): void {
    this.#versions.set(openTime, (this.#versions.get(openTime) ?? 0) + 1)
  }

  /** Opening time of the candle that forms. */
  lastOpen(): number {
    return Math.floor(this.now / hourMs) * hourMs
  }

  candle(openTime: number): Candle {
    const close = `11.${this.#versions.get(openTime) ?? 0}1`
    return aCandle({ ...candleSeries, openTime, close, isClosed: openTime < this.lastOpen() })
  }

  /** Candles that open in a range, the oldest first. */
  candles(from: number, to: number): Candle[] {
    const first = Math.max(begin, from)
    return Array.from({ length: Math.max(0, Math.ceil((to - first) / hourMs)) }, (_, i) =>
      this.candle(first + i * hourMs),
    )
  }
}
