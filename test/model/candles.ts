/** What may be claimed of the candles of one series, and what must be: written from the text of the rule alone. */
import { intersect, subtract, unite, type Span } from './spans.js'

export type CandlePage = {
  /** Half-open bounds of what was asked. */
  from: number
  to: number
  at: number
  openings: number[]
  /** Opening times of those that cannot be understood. */
  unread: number[]
  /** True if its candles have no volume. */
  isQuiet: boolean
}

const settlingMs = 5_000

export class CandleModel {
  private own: Span[] = []
  /** Silence between two neighbours of one response. A candle that comes in it ends it, unless it forms and is quiet. */
  private silences: Span[] = []
  /** Opening times of forming candles. True for those that have a volume: they cannot be silence. */
  private formed = new Map<number, boolean>()
  /** Places of candles that were shown and could not be understood. They are no silence before their candles come. */
  private denied: Span[] = []
  /** Times of stored fills. What lies between two candles was not silent there. */
  private traded: number[] = []

  constructor(
    private readonly isTraded: boolean,
    private readonly stepMs: number,
  ) {}

  receive({ from, to, at, openings, unread, isQuiet }: CandlePage): void {
    const closed = openings.filter((open) => open + this.stepMs + settlingMs <= at).sort((a, b) => a - b)
    const own = closed.map((open): Span => [open, open + this.stepMs])
    this.own = unite([...this.own, ...own])
    const shown = isQuiet ? own : openings.map((open): Span => [open, open + this.stepMs])
    this.silences = subtract(this.silences, shown)
    for (const open of openings) this.formed.set(open, !isQuiet)
    if (!this.isTraded) return
    const [first = 0] = openings
    const isShown = (open: number) => open > Math.min(...openings) && open < Math.max(...openings)
    const broken = unread.filter((open) => isShown(open) && (open - first) % this.stepMs === 0)
    this.denied = subtract([...this.denied, ...broken.map((open): Span => [open, open + this.stepMs])], this.own)
    this.silences = subtract(this.silences, this.denied)
    if (unread.length > 0) return
    const inside = openings.filter((open) => open >= from && open < to).sort((a, b) => a - b)
    const left: Span[] = []
    for (const [index, open] of inside.entries()) {
      const before = inside[index - 1]
      if (before === undefined || (open - before) % this.stepMs !== 0) continue
      const settled = before + Math.max(1, Math.floor((at - settlingMs - before) / this.stepMs)) * this.stepMs
      left.push([before + this.stepMs, Math.min(open, settled)])
    }
    // A response that leaves out a stored candle is no unbroken run: it shows no silence at all.
    const traded = [...this.formed].filter(([, isTraded]) => isTraded)
    const stored = unite([...this.own, ...traded.map(([open]): Span => [open, open + this.stepMs])])
    if (intersect(left, stored).length > 0) return
    this.silences = unite([...this.silences, ...subtract(this.withoutTrades(left), this.denied)])
  }

  /** Fills are stored. They end the silence of the candles in which they happened. */
  trade(times: readonly number[]): void {
    this.traded.push(...times)
    if (this.isTraded) this.silences = this.withoutTrades(this.silences)
  }

  private withoutTrades(silences: readonly Span[]): Span[] {
    return silences.flatMap((span) => {
      const placeOf = (time: number) => span[0] + Math.floor((time - span[0]) / this.stepMs) * this.stepMs
      const inside = this.traded.filter((time) => time >= span[0] && time < span[1]).map(placeOf)
      return subtract([span], intersect([span], unite(inside.map((place): Span => [place, place + this.stepMs]))))
    })
  }

  /** Exactly what a claim holds. */
  claimed(): Span[] {
    return unite([...this.own, ...this.silences])
  }
}
