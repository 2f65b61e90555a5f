import type { ExchangeClient, Page } from '../exchange/client.js'
import type { RequestOptions } from '../exchange/sender.js'
import { ExchangeError } from '../exchange/errors.js'
import { type Candle, type CandleSeries, intervalMs } from '../market/candle.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { type Backoff, backoffMs } from '../runtime/backoff.js'
import type { Clock } from '../runtime/clock.js'
import type { CandlePage } from './candleWriter.js'
import { pageParameters, type PageParameters, type PageRequest, type PageResponse } from './sources.js'
import { silenceBetween } from '../market/candleGrid.js'

/** Thrown when the service has been away for too long. The slice is then released. */
class Postponed extends Error {
  override readonly name = 'Postponed'
}

export interface PageSourceOptions {
  readonly client: ExchangeClient
  readonly series: CandleSeries
  /** How long after its close a candle counts as final. */
  readonly settleMs: number
  readonly priority: 'repair' | 'backfill'
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Resolves when another page may come. */
  readonly store: (page: CandlePage) => Promise<void>
}

const retry: Backoff = { minMs: 500, maxMs: 15_000 }
/** A slice that gets no response for this long makes room for others. */
const patienceMs = 180_000

/** Asks for pages of one series and hands their closed candles on to be stored. */
export class PageSource {
  readonly counts = { requests: 0, rows: 0 }
  /** Ranges that the responses left out between two of their candles. */
  readonly silence: TimeRange[] = []
  readonly #options: PageSourceOptions
  #respondedMs: number
  #skewMs = 0

  constructor(options: PageSourceOptions) {
    this.#options = options
    this.#respondedMs = options.clock.monotonicMs()
  }

  /** The service's clock, as far as its responses told it. */
  now(): TimeMs {
    return this.#options.clock.now() + this.#skewMs
  }

  /**
   * Resolves to the content of the response, whose rows are being stored. Waits while the service is away. Rejects with
   * `Postponed` when the service is away for too long, and with the client's error when the error is final.
   */
  async ask(request: PageRequest): Promise<PageResponse> {
    const { series, store } = this.#options
    const parameters = pageParameters(request, intervalMs[series.interval])
    const page = await this.#askPatiently(request, parameters)
    this.#skewMs = page.requestTime - page.receivedAt
    const candles = page.rows.filter(({ isClosed }) => isClosed)
    this.counts.rows += candles.length
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

  async #askPatiently({ operation }: PageRequest, parameters: PageParameters): Promise<Page<Candle>> {
    const { client, series, settleMs, priority, clock, signal } = this.#options
    const { category, symbol, type, interval } = series
    const query = { category, symbol, type, interval, settleMs, ...parameters }
    const options: RequestOptions = { priority, signal }
    for (let failures = 1; ; failures++) {
      try {
        this.counts.requests += 1
        const page = await (operation === 'candles'
          ? client.candles(query, options)
          : client.historyCandles(query, options))
        this.#respondedMs = clock.monotonicMs()
        return page
      } catch (error) {
        if (!(error instanceof ExchangeError) || !error.retryable) throw error
        if (clock.monotonicMs() - this.#respondedMs > patienceMs) throw new Postponed(error.message, { cause: error })
      }
      await clock.sleep(backoffMs(failures, retry), signal)
    }
  }
}
