import { type CandleSeries, seriesText } from '../../market/candle.js'
import type { TimeMs } from '../../market/values.js'

export interface CandleResponse {
  /** Time the response came, by this machine's clock. */
  readonly at: TimeMs
  /** Opening time of the newest candle that any response has shown; null while none has. */
  readonly newest: TimeMs | null
}

/**
 * The last live response of each series of candles since the recorder started. A series is quiet when responses come
 * but show nothing new. A series is behind when no response comes.
 */
export class CandleResponses {
  readonly #bySeries = new Map<string, CandleResponse>()

  get(series: CandleSeries): CandleResponse | undefined {
    return this.#bySeries.get(seriesText(series))
  }

  set(series: CandleSeries, response: CandleResponse): void {
    this.#bySeries.set(seriesText(series), response)
  }

  forget(series: CandleSeries): void {
    this.#bySeries.delete(seriesText(series))
  }
}
