/** What may be claimed of the candles of one series, and what must be: written from the text of the rule alone. */
import { subtract, unite, type Span } from './spans.js'

export type CandlePage = {
  /** Half-open bounds of what was asked. */
  from: number
  to: number
  at: number
  openings: number[]
}

const settlingMs = 5_000

export class CandleModel {
  private own: Span[] = []
  /** Silence between two neighbours of one response. A candle that comes in it ends it, with its own interval. */
  private silences: Span[] = []

  constructor(
    private readonly isTraded: boolean,
    private readonly stepMs: number,
  ) {}

  /** `tradedAt` are the times of stored fills: what lies between two candles was not silent there. */
  receive({ from, to, at, openings }: CandlePage, tradedAt: readonly number[] = []): void {
    const closed = openings.filter((open) => open + this.stepMs + settlingMs <= at).sort((a, b) => a - b)
    const own = closed.map((open): Span => [open, open + this.stepMs])
    this.own = unite([...this.own, ...own])
    this.silences = subtract(this.silences, own)
    if (!this.isTraded) return
    const inside = openings.filter((open) => open >= from && open < to).sort((a, b) => a - b)
    for (const [index, open] of inside.entries()) {
      const before = inside[index - 1]
      if (before === undefined || (open - before) % this.stepMs !== 0) continue
      const settled = before + Math.max(1, Math.floor((at - settlingMs - before) / this.stepMs)) * this.stepMs
      const left = subtract([[before + this.stepMs, Math.min(open, settled)]], this.own)
      this.silences = unite([...this.silences, ...left.filter((span) => !holds(span, tradedAt))])
    }
  }

  /** Exactly what a claim holds. */
  claimed(): Span[] {
    return unite([...this.own, ...this.silences])
  }
}

const holds = ([from, to]: Span, times: readonly number[]) => times.some((time) => time >= from && time < to)
