import type { ExchangeClient, Page } from '../exchange/client.js'
import type { RequestOptions } from '../exchange/sender.js'
import { type Candle, type CandleSeries, intervalMs, silenceBetween } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import type { CandlePage } from './candleWriter.js'
import type { Patience } from './sliceWork.js'
import { pageParameters, type PageParameters, type PageRequest, type PageResponse } from './sources.js'

export interface PageSourceOptions {
  readonly client: ExchangeClient
  readonly series: CandleSeries
  /** How long after its close a candle counts as final. */
  readonly settleMs: number
  readonly request: RequestOptions
  readonly patience: Patience
  /** Resolves when another page may come. */
  readonly store: (page: CandlePage) => Promise<void>
}

/** Asks for pages of one series and hands their closed candles on to be stored. */
export class PageSource {
  received = 0
  /** Ranges that the responses left out between two of their candles. */
  readonly silence: TimeRange[] = []
  readonly #options: PageSourceOptions

  constructor(options: PageSourceOptions) {
    this.#options = options
  }

  /** Resolves to the content of the response, whose rows are being stored. Waits while the service is away. */
  async ask(request: PageRequest): Promise<PageResponse> {
    const { series, store } = this.#options
    const parameters = pageParameters(request, intervalMs[series.interval])
    const page = await this.#request(request, parameters)
    const candles = page.rows.filter(({ isClosed }) => isClosed)
    this.received += candles.length
    const { requestTime, receivedAt, rejected } = page
    const silence = this.#silenceOf(page, request)
    this.silence.push(...silence)
    if (candles.length > 0 || rejected.length > 0) await store({ candles, silence, rejected, requestTime, receivedAt })
    return { openTimes: candles.map(({ openTime }) => openTime), silence }
  }

  /** Ranges that a page leaves out between two candles. None if rejected or surplus rows may hide candles. */
  #silenceOf(
    { rows, rejected, surplusRows, requestTime }: Page<Candle>,
    { operation, window }: PageRequest,
  ): TimeRange[] {
    const { series, settleMs } = this.#options
    // Premium, mark and index candles are not made of trades: where they lack, it is for another reason.
    if (series.type !== 'market' || rejected.length + surplusRows > 0) return []
    const lengthMs = intervalMs[series.interval]
    // The start of history-candles was seen to be ignored: its responses may well begin earlier.
    const from = operation === 'candles' ? window.from - lengthMs : Number.NEGATIVE_INFINITY
    const openTimes = rows.map(({ openTime }) => openTime).filter((time) => time >= from && time <= window.to)
    return silenceBetween(openTimes, { lengthMs, settledUntil: requestTime - settleMs })
  }

  async #request({ operation }: PageRequest, parameters: PageParameters): Promise<Page<Candle>> {
    const { client, series, settleMs, request, patience } = this.#options
    const { category, symbol, type, interval } = series
    const query = { category, symbol, type, interval, settleMs, ...parameters }
    return patience.ask(() =>
      operation === 'candles' ? client.candles(query, request) : client.historyCandles(query, request),
    )
  }
}
