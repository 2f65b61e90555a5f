import { type CandleSeries, seriesText } from '../../market/candle.js'
import type { TimeMs } from '../../market/values.js'

export interface CandleAnswer {
  /** When it came, by our clock. */
  readonly at: TimeMs
  /** Opening time of the newest candle that any answer has shown; null while none has. */
  readonly newest: TimeMs | null
}

/**
 * What the live answers have told of each series of candles since the recorder started. A series whose answers come and show
 * nothing new is quiet; one that is not answered is behind.
 */
export class CandleAnswers {
  readonly #bySeries = new Map<string, CandleAnswer>()

  get(series: CandleSeries): CandleAnswer | undefined {
    return this.#bySeries.get(seriesText(series))
  }

  set(series: CandleSeries, answer: CandleAnswer): void {
    this.#bySeries.set(seriesText(series), answer)
  }

  forget(series: CandleSeries): void {
    this.#bySeries.delete(seriesText(series))
  }
}
