import type { CandleSeries } from '../market/candle.js'
import { groupBy } from '../runtime/groupBy.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { messageOf } from '../runtime/text.js'

interface EventClient {
  /** Series that the client shows; null if it only shows the status. */
  readonly series: CandleSeries | null
  /** Resolves when the event has left the process. */
  send(event: 'status' | 'instrument', data: string): Promise<void>
  /** Closes the connection of a client that has taken nothing for too long. */
  drop(): void
}

interface EventSources {
  status(): Promise<unknown>
  instrument(series: CandleSeries): Promise<unknown>
}

const tickMs = 1_000
/** A client that takes no event for this long is dropped, to bound memory. */
const patienceMs = 30_000
/** Number of ticks between two reads of an instrument. */
const instrumentTicks = 2

/** Sends new data to all open pages. Each query runs once for all pages, and none runs without a page. */
export class EventHub {
  readonly #sources: EventSources
  readonly #clock: Clock
  readonly #logger: Logger
  /**
   * Clients of the event stream. A slow client gets fewer events and delays nobody. A client that takes none is
   * dropped.
   */
  readonly #clients = new Map<EventClient, Taking>()
  /** Clients that wait for their first data. */
  readonly #fresh = new Set<EventClient>()
  #isGreeting = false
  #running: AbortController | undefined

  constructor(sources: EventSources, clock: Clock, logger: Logger) {
    this.#sources = sources
    this.#clock = clock
    this.#logger = logger
  }

  get size(): number {
    return this.#clients.size
  }

  /** Returns a function that removes the client. */
  add(client: EventClient): () => void {
    this.#clients.set(client, { events: 0, sinceMs: 0 })
    if (this.#running === undefined) {
      this.#running = new AbortController()
      void this.#run(this.#running.signal)
    } else {
      this.#fresh.add(client)
      if (!this.#isGreeting) void this.#greet()
    }
    return () => {
      this.#clients.delete(client)
      this.#fresh.delete(client)
      if (this.#clients.size === 0) this.close()
    }
  }

  close(): void {
    this.#running?.abort()
    this.#running = undefined
  }

  /** Sends the first data. Clients that come meanwhile share the next reads, however many come and go. */
  async #greet(): Promise<void> {
    this.#isGreeting = true
    while (this.#fresh.size > 0) {
      const clients = [...this.#fresh]
      this.#fresh.clear()
      await this.#serve(clients, true)
    }
    this.#isGreeting = false
  }

  async #run(signal: AbortSignal): Promise<void> {
    for (let tick = 0; !signal.aborted; tick += 1) {
      const startedMs = this.#clock.monotonicMs()
      await this.#serve([...this.#clients.keys()], tick % instrumentTicks === 0)
      const restMs = Math.max(100, tickMs - (this.#clock.monotonicMs() - startedMs))
      await this.#clock.sleep(restMs, signal).catch(() => undefined)
    }
  }

  /** Sends new data to clients. Data that cannot be read now is sent later. Never rejects. */
  async #serve(clients: readonly EventClient[], withInstruments: boolean): Promise<void> {
    try {
      const status = JSON.stringify(await this.#sources.status())
      for (const client of clients) this.#send(client, 'status', status)
      if (!withInstruments) return
      const watchers = clients.filter(({ series }) => series !== null)
      for (const [key, watching] of groupBy(watchers, ({ series }) => JSON.stringify(series))) {
        if (!watching.some((client) => this.#clients.has(client))) continue
        const now = JSON.stringify(await this.#sources.instrument(JSON.parse(key) as CandleSeries))
        for (const client of watching) this.#send(client, 'instrument', now)
      }
    } catch (error) {
      this.#logger.debug(`no events for the page: ${messageOf(error)}`)
    }
  }

  #send(client: EventClient, event: 'status' | 'instrument', data: string): void {
    const state = this.#clients.get(client)
    if (state === undefined) return
    const nowMs = this.#clock.monotonicMs()
    if (state.events === 0) state.sinceMs = nowMs
    else if (nowMs - state.sinceMs > patienceMs) {
      this.#clients.delete(client)
      return client.drop()
    }
    // Skips a status while any event is unsent, because the next follows soon. Skips others while two are unsent.
    if (state.events > 1 || (state.events === 1 && event === 'status')) return
    state.events += 1
    client
      .send(event, data)
      .catch(() => undefined)
      .finally(() => {
        state.events -= 1
        state.sinceMs = this.#clock.monotonicMs()
      })
  }
}

interface Taking {
  /** Number of events on their way to the client. */
  events: number
  /** Time when the client last took an event. */
  sinceMs: number
}
