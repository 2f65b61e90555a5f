import { ExchangeError, type ExchangeErrorKind, failureTraits } from '../../exchange/errors.js'
import type { ExchangeClient, Page } from '../../exchange/client.js'
import type { RequestOptions } from '../../exchange/sender.js'
import type { StreamName } from '../../market/stream.js'
import type { ServiceMs } from '../../market/values.js'
import type { Clock } from '../../runtime/clock.js'
import type { Logger } from '../../runtime/logger.js'
import { type Batch, missingRows, withoutOldRows } from '../../ledger/batch.js'
import type { Incidents } from '../../runtime/incidents.js'
import type { Queue } from '../queue/queue.js'
import type { CollectorStats, Requested } from '../streams/stream.js'
import type { Universe } from '../universe/universe.js'
import { isJudged, type WholeLists } from '../universe/wholeLists.js'
import { messageOf } from '../../runtime/text.js'

/** Dependencies that all pollers share. */
export interface PollContext {
  readonly client: ExchangeClient
  readonly queue: Queue
  readonly universe: Universe
  readonly stats: CollectorStats
  readonly incidents: Incidents
  readonly wholeLists: WholeLists
  /** How the last request of each target ended, of those that had a response since the start. */
  readonly lastOutcomes: WeakMap<object, 'response' | 'failure'>
  /** How long the table of a stream keeps its rows; null: for ever. */
  readonly keptMs: (stream: StreamName) => number | null
  readonly clock: Clock
  /** Returns the time of the service's clock; null before its first response. */
  readonly serviceNow: () => ServiceMs | null
  readonly logger: Logger
  /** Aborts when the recorder stops. No request is sent then, and responses under way are still stored. */
  readonly signal: AbortSignal
}

type Polled<Target, Row> =
  /** No response came, or none that can be used. `failure` is the kind of the client's error. */
  | {
      readonly batch: null
      readonly isKept: false
      readonly hasEnvelope: false
      readonly content?: never
      readonly failure?: ExchangeErrorKind
    }
  | {
      readonly batch: Batch<Target, Row>
      /** What the stream compares responses by; null if the response is empty, undefined if the stream compares none. */
      readonly content?: string | null | undefined
      /** False for an empty body, because a proxy may have sent it instead of the service. */
      readonly hasEnvelope: boolean
      /** False when neither the database nor the disk took the batch. Its rows are lost unless requested again soon. */
      readonly isKept: boolean
      readonly failure?: never
    }

const noResponse = { batch: null, isKept: false, hasEnvelope: false } as const

/**
 * Requests a target once, stores the response and lets the recorder learn from it. Never rejects: a failure is counted
 * and logged, so that other targets go on.
 */
export async function pollAndStore<Target extends object, Row>(
  context: PollContext,
  stream: Requested<Target, Row>,
  target: Target,
  options: RequestOptions,
): Promise<Polled<Target, Row>> {
  const { client, queue, universe, stats, incidents, wholeLists, lastOutcomes, keptMs, clock } = context
  const startedMs = clock.monotonicMs()
  try {
    const page = await stream.fetch(client, target, options)
    const { hasEnvelope } = page
    const polled = { ...batchOf(stream, target, page, universe), ...afterWhat(lastOutcomes.get(target)) }
    reportUnstoredRows(incidents, polled)
    if (page.rows.length === 0 && missingRows(page) > 0) {
      await queue.write(polled)
      throw unreadable(page)
    }
    const batch = wholeLists.judge(polled)
    lastOutcomes.set(target, 'response')
    stats[stream.name].responses += 1
    const content = stream.contentOf?.(batch.rows)
    // A response with a few readable rows is used, and is a failure all the same.
    if (missingRows(page) > page.rows.length) noteFailure(context, stream.name, target, unreadable(page), startedMs)
    else noteSuccess(context, stream.name, target, content === null ? 0 : page.rows.length)
    stream.learn?.(universe, batch)
    return { batch, content, hasEnvelope, isKept: await queue.write(withoutOldRows(batch, keptMs(stream.name))) }
  } catch (error) {
    // A request that was aborted is no failure. Any other error is reported, even while the recorder stops.
    if (options.signal?.aborted && error instanceof ExchangeError && error.kind === 'aborted') return noResponse
    if (error instanceof ExchangeError && error.kind === 'absent') return absence(context, stream.name, target, error)
    if (lastOutcomes.has(target)) lastOutcomes.set(target, 'failure')
    return noteFailure(context, stream.name, target, error, startedMs)
  }
}

function afterWhat(last: 'response' | 'failure' | undefined): Pick<Batch, 'after'> {
  if (last === 'response') return {}
  return { after: last ?? 'start' }
}

/** Counts a usable response. Where all of a category have become empty, that is an incident, too. */
function noteSuccess({ stats, incidents, clock }: PollContext, name: StreamName, target: unknown, rows: number): void {
  const { outage } = stats[name]
  const [category, nowMs] = [categoryOf(target), clock.monotonicMs()]
  const size = { target: JSON.stringify(target), isList: !isOfInstrument(target), rows }
  outage.responded(category, nowMs, isJudged(name) ? null : size)
  const reason = outage.reasonOf(category, nowMs)
  if (reason === null) incidents.succeeded(name, categoryText(target))
  else incidents.failed(name, reason, categoryText(target))
}

/** Counts a failure. One that concerns its target alone is an incident only if the whole category fails. */
function noteFailure(
  { stats, incidents, clock, logger }: PollContext,
  name: StreamName,
  target: unknown,
  error: unknown,
  startedMs: number,
): Extract<Polled<never, never>, { batch: null }> {
  const { outage } = stats[name]
  const [category, nowMs] = [categoryOf(target), clock.monotonicMs()]
  const message = messageOf(error)
  const { kind, reason } = error instanceof ExchangeError ? error : { kind: null, reason: message }
  stats[name].failures += 1
  outage.failed(
    category,
    { target: isOfInstrument(target) ? JSON.stringify(target) : null, kind, message: reason, startedMs },
    nowMs,
  )
  const isOfTarget = kind !== null && failureTraits[kind].about === 'target' && isOfInstrument(target)
  // The lease itself says that nothing may be sent.
  if (kind === 'not-sent' || (isOfTarget && outage.reasonOf(category, nowMs) === null))
    logger.debug(`${name}: ${message}`)
  else incidents.failed(name, message, categoryText(target))
  return kind === null ? noResponse : { ...noResponse, failure: kind }
}

/** Takes the absence of an operation that a service may lack. The stream has nothing to record then. */
function absence<Target>(
  { stats, clock, serviceNow, logger }: PollContext,
  name: StreamName,
  target: Target,
  error: ExchangeError,
): Polled<Target, never> {
  logger.debug(`${name}: ${error.message}`)
  stats[name].lastIdleAt = clock.now()
  const requestTime = serviceNow()
  if (requestTime === null) return { ...noResponse, failure: error.kind }
  const empty = { rows: [], rejected: [], requestTime, receivedAt: clock.now() }
  return { batch: { stream: name, target, ...empty }, hasEnvelope: false, isKept: true }
}

function unreadable(page: Page<unknown>): ExchangeError {
  const { operation, rows, rejected } = page
  const missing = missingRows(page)
  const first = rejected.find(({ isRowStored }) => isRowStored !== true)
  const how = rows.length === 0 ? `none of ${missing}` : `only ${rows.length} of ${rows.length + missing}`
  const what = `${how} rows can be understood, the first because of ${first?.reason ?? ''}`
  return new ExchangeError('unreadable', { operation, parameters: first?.parameters ?? {}, what })
}

/** Time a response came, on the monotonic clock. The wall clock may have been set since. */
export function respondedMs(clock: Clock, { receivedAt }: Batch): number {
  return clock.monotonicMs() - Math.max(0, clock.now() - receivedAt)
}

/** Converts the page of a response into the batch to store. */
function batchOf<Target, Row>(
  stream: Requested<Target, Row>,
  target: Target,
  page: Page<Row>,
  universe: Universe,
): Batch<Target, Row> {
  const { requestTime, receivedAt, rejected } = page
  const ofMarket = page.rows.filter((row) => stream.keeps?.(universe, row) ?? true)
  const rows = stream.bounded?.(universe, target, ofMarket) ?? ofMarket
  const unkept = page.unkept + ofMarket.length - rows.length
  return { stream: stream.name, target, requestTime, receivedAt, rows, rejected, unkept }
}

/** Reports rows that are neither stored nor kept as rejected, because they are lost. */
function reportUnstoredRows(incidents: Incidents, { stream, target, unkept = 0 }: Batch): void {
  const what = `${stream} rows` as const
  const part = categoryText(target)
  if (unkept === 0) return incidents.succeeded(what, part)
  const how = 'too many, or too many that cannot be understood'
  incidents.failed(what, `${unkept} rows of a response were left out: ${how}`, part)
}

/**
 * Returns the category of a target that stands for a whole category, such as the list of its tickers; else ''. Each
 * such category has an incident of its own. All instruments of a stream share one.
 */
export function categoryText(target: unknown): string {
  return isOfInstrument(target) ? '' : categoryOf(target)
}

/** Returns the category of a target; '' for a list of all categories. */
export function categoryOf(target: unknown): string {
  return typeof target === 'object' && target !== null && 'category' in target ? String(target.category) : ''
}

function isOfInstrument(target: unknown): boolean {
  return typeof target === 'object' && target !== null && 'symbol' in target
}
