import { hostname } from 'node:os'
import type { Kysely } from 'kysely'
import { randomName } from '../runtime/randomness.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import {
  endSatisfiedWants,
  extendLeases,
  isWorkLeft,
  type Slice,
  type SliceResult,
  takeSlice,
} from '../ledger/slices.js'
import { describeDatabaseError } from '../db/databaseError.js'
import type { Database } from '../db/schema.js'
import { streamText } from '../db/series.js'
import { SliceRunner } from './runSlice.js'
import type { SliceContext } from './sliceWork.js'
import { type Asking, cutSlice, hasRoom } from './workload.js'
import { isProven, type StreamName, streamNames } from '../market/stream.js'
import type { TimeRange } from '../market/timeRange.js'
import { refreshRollups } from '../server/timescale/rollups.js'

interface RunningSlice {
  readonly stream: StreamName
  readonly stop: AbortController
  asking: Asking
  ended: Promise<void>
}

/** Only these streams have coverage, which shows what is missing. */
const provenStreams = streamNames.filter(isProven)
const busyPollMs = 50
const tailPollMs = 250
const idlePollMs = 1_000
/** Interval at which leases are extended. The worker notices cancelled slices then, too. */
const extendEveryMs = 2_000
const endWantsEveryMs = 5_000
const afterErrorMs = 2_000

/** Fetches missing rows of wants, the most urgent slice first, until it is stopped. */
export class HistoryWorker {
  readonly #options: SliceContext
  readonly #name = `${hostname()} ${process.pid} ${randomName(6)}`
  readonly #runner: SliceRunner
  readonly #stopping = new AbortController()
  readonly #running = new Map<Slice, RunningSlice>()
  readonly #loop: Promise<void>
  readonly #touched = new TouchedRollups()
  #refreshing: Promise<boolean> | undefined

  constructor(options: SliceContext) {
    this.#options = options
    this.#runner = new SliceRunner(options)
    this.#loop = this.#work()
  }

  /** Stops sending requests, stores the received rows and releases the slices. */
  async stop(): Promise<void> {
    const { db, clock, logger } = this.#options
    this.#stopping.abort(new Error('the worker was stopped'))
    await this.#loop
    const isDone = !this.#isFetchingCandles()
    await Promise.all([...this.#running.values()].map(({ ended }) => ended))
    await this.#refreshing
    // A stop during the work must be quick, so rollups are refreshed only if no slice of candles was running.
    if (isDone) await this.#touched.refreshAtLast(db, clock, logger)
    await extendLeases(db, this.#name, []).catch(() => undefined)
  }

  async #work(): Promise<void> {
    const { db, clock, serviceNow, incidents } = this.#options
    const { signal } = this.#stopping
    const extend = everySoOften(clock, extendEveryMs, () => this.#extendLeases())
    const endWants = everySoOften(clock, endWantsEveryMs, () => endSatisfiedWants(db))
    while (!signal.aborted) {
      let waitMs = busyPollMs
      try {
        // Nothing of the past can be judged before the service has told its time.
        const isTold = serviceNow() !== null
        if (isTold && (this.#running.size > 0 || (await isWorkLeft(db)))) {
          await extend()
          await endWants()
          waitMs = await this.#takeSlices()
        } else waitMs = idlePollMs
        if (!this.#isFetchingCandles()) this.#refreshRollups()
        incidents.succeeded('backfill')
      } catch (error) {
        incidents.failed('backfill', describeDatabaseError(error))
        waitMs = afterErrorMs
      }
      await clock.sleep(waitMs, signal).catch(() => undefined)
    }
  }

  /** Slices of other streams run for up to an hour, and rollups do not depend on them. */
  #isFetchingCandles(): boolean {
    return [...this.#running.values()].some(({ stream }) => stream === 'candles')
  }

  /** Refreshes beside the loop, because a refresh takes minutes and leases must be extended meanwhile. */
  #refreshRollups(): void {
    const { db, logger } = this.#options
    this.#refreshing ??= this.#touched.refresh(db, logger).finally(() => {
      this.#refreshing = undefined
    })
  }

  /** Takes as many slices as there is room for; resolves to how long to wait for the next look. */
  async #takeSlices(): Promise<number> {
    while (!this.#stopping.signal.aborted) {
      const streams = provenStreams.filter((stream) => this.#hasRoom(stream))
      if (streams.length === 0) return busyPollMs
      const slice = await takeSlice(this.#options.db, this.#name, cutSlice, streams)
      if (slice === null) break
      const { stream } = slice.series
      const running: RunningSlice = { stream, stop: new AbortController(), asking: null, ended: Promise.resolve() }
      this.#running.set(slice, running)
      running.ended = this.#run(slice, running).finally(() => this.#running.delete(slice))
    }
    return this.#running.size > 0 ? tailPollMs : idlePollMs
  }

  /** Extends the leases. A slice that this worker no longer holds, such as a cancelled one, is stopped. */
  async #extendLeases(): Promise<void> {
    const slices = [...this.#running.keys()]
    const held = await extendLeases(this.#options.db, this.#name, slices)
    for (const slice of slices)
      if (!held.has(slice.id)) this.#running.get(slice)?.stop.abort(new Error('the lease has ended'))
  }

  #hasRoom(stream: StreamName): boolean {
    const { repair, backfill } = this.#options.client.stats().waiting
    return hasRoom(stream, [...this.#running.values()], repair.count + backfill.count)
  }

  /** Never rejects: a slice that cannot be settled is given up when leases are extended. */
  async #run(slice: Slice, running: RunningSlice): Promise<void> {
    const { logger, incidents } = this.#options
    const what = `backfill: ${streamText(slice.series)}`
    try {
      const signal = AbortSignal.any([this.#stopping.signal, running.stop.signal])
      const result = await this.#runner.run(slice, (operation) => (running.asking = operation), signal)
      this.#touched.add(slice, result)
      const { problem, failure, received, requests } = result
      if (problem !== undefined) logger.warn(`${what}: will be retried later: ${problem}`)
      if (failure !== undefined) logger.warn(`${what}: ${failure}`)
      logger.debug(`${what}: ${received} rows in ${requests} requests`)
    } catch (error) {
      // A database that goes away stops all slices at once, which is one incident.
      incidents.failed('backfill', `${streamText(slice.series)}: ${describeDatabaseError(error)}`)
    }
  }
}

/** Returns a function that runs `work` at most once in `everyMs`. Calls in between do nothing. */
function everySoOften(clock: Clock, everyMs: number, work: () => Promise<void>): () => Promise<void> {
  let nextMs = -Infinity
  return async () => {
    if (clock.monotonicMs() < nextMs) return
    nextMs = clock.monotonicMs() + everyMs
    await work()
  }
}

/** Number of tries of the last refresh. They take ten seconds together, so that the program ends soon. */
const lastTries = 20
const betweenTriesMs = 500
const willShowLater = 'rollups will show what was backfilled within three hours, not now'

/**
 * Remembers ranges of written candles until they are rolled up. A refresh rolls up all instruments of a range at once.
 * Therefore it is done when no slice is left, not after each slice.
 */
export class TouchedRollups {
  #ranges: TimeRange[] = []

  add(
    { series, ranges }: Pick<Slice, 'series' | 'ranges'>,
    { inserted, updated }: Pick<SliceResult, 'inserted' | 'updated'>,
  ): void {
    if (series.stream === 'candles' && series.type === 'market' && series.interval === '1m' && inserted + updated > 0)
      this.#ranges.push(...ranges)
  }

  /**
   * Refreshes the rollups. Resolves to false while another refresh is running, such as a scheduled one. The ranges then
   * wait for the next call. Never rejects: after another failure, the server's own schedule refreshes the ranges.
   */
  async refresh(db: Kysely<Database>, logger: Logger): Promise<boolean> {
    const ranges = this.#ranges
    this.#ranges = []
    try {
      if (!(await refreshRollups(db, ranges))) {
        this.#ranges = [...this.#ranges, ...ranges]
        return false
      }
    } catch (error) {
      logger.warn(`${willShowLater}: ${describeDatabaseError(error)}`)
    }
    return true
  }

  /** Refreshes for the last time. While another refresh is running, it retries for up to ten seconds. */
  async refreshAtLast(db: Kysely<Database>, clock: Clock, logger: Logger): Promise<void> {
    for (let tries = 1; !(await this.refresh(db, logger)); tries++) {
      if (tries === lastTries) return logger.warn(`${willShowLater}: another refresh is still running`)
      await clock.sleep(betweenTriesMs)
    }
  }
}
