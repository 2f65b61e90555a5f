import type { Kysely } from 'kysely'
import { type Config, keptMs, storageOf } from '../config/resolve.js'
import type { CandleSeries } from '../market/candle.js'
import { type InstrumentKey, instrumentText } from '../market/category.js'
import { streamNames } from '../market/stream.js'
import type { ServiceMs } from '../market/values.js'
import { sleepFor, within } from '../runtime/clock.js'
import type { Batch, CandleTarget } from '../ledger/batch.js'
import { describeDatabaseError } from '../db/databaseError.js'
import type { Database } from '../db/schema.js'
import { recentFillRates } from '../ledger/read/instruments.js'
import { keepWatchingEvidence } from './watchEvidence.js'
import { type CandlePoller, candlePoller } from './poll/candlePoller.js'
import { cronPoller } from './poll/cronPoller.js'
import { cyclePoller } from './poll/cyclePoller.js'
import { type FillsPoller, fillsPoller, watchTickers } from './poll/fillsPoller.js'
import { categoryOf, categoryText, type PollContext } from './poll/pollAndStore.js'
import type { Poller } from './poll/poller.js'
import type { Incidents } from '../runtime/incidents.js'
import { keepReadingLists, takeRecordedLists } from './fleet/sharedLists.js'
import { allowances } from './plan/plan.js'
import type { OpenQueue } from './queue/openQueue.js'
import { onSchedule } from './schedule/cron.js'
import { keepSteady } from './schedule/pace.js'
import type { CollectorStats } from './streams/stream.js'
import { type AnyStream, enabledStreams, streams, tickerWatch } from './streams/streams.js'
import type { Ownership } from './universe/planUniverse.js'
import { Universe } from './universe/universe.js'
import { WholeLists } from './universe/wholeLists.js'

interface CollectorDependencies extends Pick<
  PollContext,
  'client' | 'stats' | 'incidents' | 'clock' | 'serviceNow' | 'logger'
> {
  readonly config: Config
  /** Where responses become durable. It stays open when the collector has stopped. */
  readonly storing: OpenQueue
  /** Share of the work that this recorder has at first. */
  readonly ownership: Ownership
}

/** Time between two requests at the start for lists of instruments. Nothing else can start without them. */
const listRetryMs = 5_000
/** Attempts to get the lists of all categories, before the start goes on with those that respond. */
const triesForMissing = 3

/** Time between two choices of instruments. An instrument whose ticker claims too much loses its place after it. */
const rechooseEveryMs = 60_000
/** Wait after a list for those of the other categories. One choice then takes them all. */
const listsTogetherMs = 1_000
/** Longest wait for work that was aborted to end. */
const giveUpMs = 1_000
/** Longest wait for what the start reads from the database. */
const readWithinMs = 2_000
const ratesEveryMs = 600_000

/**
 * The running collection of all enabled streams.
 *
 * starting ─▶ collecting ─▶ stopping
 *
 * The collection starts without the service or the database, and goes on while either is away.
 */
export class Collector {
  readonly stats: CollectorStats
  readonly universe = new Universe()
  readonly incidents: Incidents
  readonly #dependencies: CollectorDependencies
  readonly #stopping = new AbortController()
  readonly #context: PollContext
  readonly #pollers = new Map<AnyStream, Poller<unknown>>()
  readonly #starting: Promise<void>
  /** Loops that run beside the pollers until the collector stops. */
  readonly #loops: Promise<void>[]
  #ownership: Ownership
  #isCollecting = false
  /** Ends the wait for further lists; null while none is awaited. */
  #cancelChoice: (() => void) | null = null
  #fillsPoller: FillsPoller | null = null
  #candlePoller: CandlePoller | null = null
  #candleSeries: readonly CandleSeries[] = []
  /** Instruments that each stream covered last time. They are kept while they still qualify. */
  readonly #covered = new Map<AnyStream, ReadonlySet<string>>()

  constructor(dependencies: CollectorDependencies) {
    this.#dependencies = dependencies
    const { config, client, storing, stats, incidents, clock, serviceNow, logger } = dependencies
    const { db, queue } = storing
    const storage = storageOf(config)
    this.stats = stats
    this.incidents = incidents
    this.#context = {
      client,
      queue,
      universe: this.universe,
      stats,
      incidents,
      wholeLists: new WholeLists(incidents),
      lastOutcomes: new WeakMap(),
      keptMs: (stream) => keptMs(storage, stream),
      clock,
      serviceNow,
      logger,
      signal: this.#stopping.signal,
    }
    this.#ownership = dependencies.ownership
    this.assign(this.#ownership)
    this.#starting = this.#start()
    this.#loops = [
      keepWatchingEvidence(db, { ...this.#context, isOwn: () => this.#ownership.hasList('fills', null) }),
      keepReadingLists({ ...this.#context, db, config }),
    ]
  }

  /** Applies a new share of the work. Waiting requests for targets outside the share are not sent. */
  assign(ownership: Ownership): void {
    this.#ownership = ownership
    // At the start each recorder requests all lists itself, because the others may not have stored any yet.
    this.universe.ownership = this.#isCollecting ? ownership : { ...ownership, hasList: () => true }
    if (this.#isCollecting) this.#retarget()
  }

  /** Tells the pollers that these responses were dropped from the disk to make room. */
  dropped(batches: readonly Batch[]): void {
    for (const poller of this.#pollers.values()) poller.dropped(batches)
  }

  get phase(): 'starting' | 'collecting' | 'stopping' {
    if (this.#stopping.signal.aborted) return 'stopping'
    return this.#isCollecting ? 'collecting' : 'starting'
  }

  /** The candles that are being recorded now. */
  get candleSeries(): readonly CandleSeries[] {
    return this.#candleSeries
  }

  /** When the service gave the last response of these candles; undefined before the first. */
  candlesRespondedAt(series: CandleSeries): ServiceMs | undefined {
    return this.#candlePoller?.respondedAt(series)
  }

  /**
   * Stops sending requests, and waits until all responses are durable: in the database, or on disk. Resolves to false
   * if some responses did not come within `drainTimeoutMs`; they are given up.
   */
  async stop(drainTimeoutMs: number): Promise<boolean> {
    const { clock, client, logger } = this.#dependencies
    this.#stopping.abort()
    this.#cancelChoice?.()
    const stopped = (async () => {
      await this.#starting
      await Promise.all([...this.#pollers.values()].map((poller) => poller.stop()))
      return true
    })()
    const drained = await within(clock, drainTimeoutMs, stopped, false)
    if (!drained) {
      const { inFlight } = client.stats()
      if (inFlight > 0)
        logger.warn(`${inFlight} requests have no response yet and are given up; nothing is recorded of them`)
      client.close()
      await within(clock, giveUpMs, stopped, false)
    }
    // The loops bring no responses, and their queries may hang with the database.
    await within(clock, giveUpMs, Promise.all(this.#loops), [])
    return drained
  }

  async #start(): Promise<void> {
    const { config, logger } = this.#dependencies
    for (const stream of enabledStreams(config)) this.#pollers.set(stream, this.#createPoller(stream))
    await this.#readBriefly('recorded lists', (db) => takeRecordedLists(config, db, this.#context))
    // The other streams choose from these lists, all of them once.
    for (const [stream, poller] of this.#pollers) {
      if (stream.kind !== 'lists') continue
      this.#retarget(stream)
      await this.#firstResponse(stream, poller)
      // The first list tells the time of the service, and fills come after it.
      if (stream.name === 'instruments') await this.#readFillRates()
      if (this.#stopping.signal.aborted) return
    }
    this.#isCollecting = true
    this.assign(this.#ownership)
    this.#loops.push(this.#rechooseEveryMinute(), this.#watchTickers(), this.#keepReadingFillRates())
    const covered = streamNames.filter((name) => this.stats[name].targets > 0)
    logger.info(`collecting ${covered.map((name) => `${name} ${this.stats[name].targets}`).join(', ')}`)
  }

  /** Reads how busy instruments were in the last days. */
  async #readFillRates(): Promise<void> {
    const now = this.#dependencies.serviceNow()
    if (now === null) return
    await this.#readBriefly('rates of fills', async (db) => this.universe.setFillRates(await recentFillRates(db, now)))
  }

  /** Waits for the database only briefly. The collection goes on without what it does not give. */
  async #readBriefly(what: string, read: (db: Kysely<Database>) => Promise<void>): Promise<void> {
    const { storing, clock, logger } = this.#dependencies
    const reading = read(storing.db).catch((error: unknown) =>
      logger.debug(`${what} could not be read: ${describeDatabaseError(error)}`),
    )
    await within(clock, readWithinMs, reading, undefined)
  }

  async #keepReadingFillRates(): Promise<void> {
    const { clock } = this.#dependencies
    while (await sleepFor(clock, ratesEveryMs, this.#stopping.signal)) await this.#readFillRates()
  }

  #createPoller(stream: AnyStream): Poller<unknown> {
    const { config } = this.#dependencies
    if (stream.kind === 'lists')
      return cronPoller(this.#context, stream, stream.schedule(config), () => this.#learned(stream))
    const trigger = stream.trigger(config)
    switch (trigger.kind) {
      case 'cycle':
        return cyclePoller(this.#context, stream, trigger)
      case 'overlap':
        this.#fillsPoller = fillsPoller(this.#context, streams.fills, trigger)
        return this.#fillsPoller
      case 'candle-close':
        this.#candlePoller = candlePoller(this.#context, streams.candles, trigger.settleMs, onSchedule)
        return this.#candlePoller
    }
  }

  /**
   * Waits for the lists from which the other streams choose. It requests the list of instruments until it comes,
   * because the other streams choose from it. Tickers and the RPI list only refine the choice. A category may be gone
   * for good, so the start waits a little for its list and then goes on. The category joins when a later list has it.
   */
  async #firstResponse(stream: AnyStream, poller: Poller<unknown>): Promise<void> {
    const { clock } = this.#dependencies
    if (stream.learn === undefined) return void poller.pollAll()
    for (let tries = 1; ; tries++) {
      const responded = await poller.pollAll()
      if (stream.name !== 'instruments' || responded === 'all') return
      if (responded === 'some' && tries >= triesForMissing) return
      if (!(await sleepFor(clock, listRetryMs, this.#stopping.signal))) return
    }
  }

  /** Chooses instruments anew every minute, not with every ticker, since each one changes turnovers a little. */
  async #rechooseEveryMinute(): Promise<void> {
    const { clock } = this.#dependencies
    while (await sleepFor(clock, rechooseEveryMs, this.#stopping.signal)) this.#retarget()
  }

  async #watchTickers(): Promise<void> {
    const watch = tickerWatch(this.#dependencies.config)
    if (watch.categories.length > 0 && this.#fillsPoller !== null)
      await watchTickers(this.#context, watch, this.#fillsPoller)
  }

  #learned(stream: AnyStream): void {
    // Every ticker changes turnovers a little. Choosing after each would change the covered instruments all day.
    if (this.phase !== 'collecting' || stream.name === 'tickers') return
    this.#cancelChoice ??= this.#dependencies.clock.after(listsTogetherMs, () => this.#retarget())
  }

  #listsOf(stream: AnyStream & { readonly kind: 'lists' }): readonly object[] {
    return stream
      .lists(this.#dependencies.config)
      .filter((category) => this.universe.ownership.hasList(stream.name, category))
      .map((category) => (category === null ? {} : { category }))
  }

  #instrumentsOf(stream: AnyStream & { readonly kind: 'instruments' }, places: number): readonly InstrumentKey[] {
    const { config } = this.#dependencies
    const { universe } = this
    const own = universe
      .select(stream.select(config), stream.covers)
      .filter((key) => universe.ownership.hasInstrument(key))
    // Pollers of cycles choose among all instruments themselves, because they learn which deserve a place.
    const chosen = stream.trigger(config).kind === 'cycle' ? own : this.#chooseSteadily(stream, own, places)
    return stream.targetsOf(config, chosen, universe)
  }

  #chooseSteadily(stream: AnyStream, ranked: readonly InstrumentKey[], places: number): readonly InstrumentKey[] {
    const before = this.#covered.get(stream)
    const hasPlace = (key: InstrumentKey) => before?.has(instrumentText(key)) === true
    const chosen = keepSteady(ranked, () => 1, places, hasPlace)
    this.#covered.set(stream, new Set(chosen.map(instrumentText)))
    return chosen
  }

  /** Chooses anew the instruments of all streams, or the lists of one stream. */
  #retarget(only?: AnyStream & { readonly kind: 'lists' }): void {
    const { config } = this.#dependencies
    this.#cancelChoice?.()
    this.#cancelChoice = null
    const planned = only === undefined ? allowances(config, this.universe.planned()).streams : []
    const demands = new Map(planned.map((demand) => [demand.stream, demand]))
    for (const [stream, poller] of this.#pollers) {
      if (only !== undefined && stream !== only) continue
      const demand = demands.get(stream.name)
      if (demand !== undefined) this.stats[stream.name].leftOut = demand.leftOut
      const places = demand?.instruments ?? Infinity
      const targets = stream.kind === 'lists' ? this.#listsOf(stream) : this.#instrumentsOf(stream, places)
      if (stream.name === 'candles') this.#candleSeries = targets as readonly CandleTarget[]
      poller.retarget(targets, places)
      const parts = new Set(targets.map(categoryText))
      this.incidents.keepOnly(stream.name, parts)
      this.incidents.keepOnly(`${stream.name} rows`, parts)
      if (stream.kind === 'lists') this.incidents.keepOnly(`${stream.name} list`, parts)
      this.stats[stream.name].outage.keepOnly(new Set(targets.map(categoryOf)))
    }
  }
}
