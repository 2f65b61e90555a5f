import { type CandleSeries, seriesText } from '../../market/candle.js'
import type { TimeMs } from '../../market/values.js'

export interface CandleResponse {
  /** When it came, by our clock. */
  readonly at: TimeMs
  /** Opening time of the newest candle that any response has shown; null while none has. */
  readonly newest: TimeMs | null
}

/**
 * What the live responses have told of each series of candles since the recorder started. A series whose responses come and show
 * nothing new is quiet; one that is not answered is behind.
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
