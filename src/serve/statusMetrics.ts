import { Counter, Gauge, type Registry } from 'prom-client'
import { metricPrefix } from '../runtime/metrics.js'
import type { Status } from './api/contract.js'

const milli = 1000

/** Metrics of what is: written from a status report just before each scrape. */
export class StatusMetrics {
  readonly #registry: Registry
  readonly #ready = this.#gauge('ready', 'Whether /readyz passes.')
  readonly #ownsBudget = this.#gauge('owns_budget', 'Whether this recorder owns the budget of its egress.')
  readonly #start = this.#gauge('start_timestamp_seconds', 'When the recorder was started, Unix time.')

  readonly #targets = this.#gauge('stream_targets', 'Instruments, series or lists that a stream covers.', 'stream')
  readonly #lastStored = this.#gauge(
    'stream_last_stored_timestamp_seconds',
    'When an answer of a stream was last committed, Unix time; absent before the first.',
    'stream',
  )
  readonly #age = this.#gauge(
    'stream_age_seconds',
    'How long ago a stream last showed that it works; since the start when it has not yet.',
    'stream',
  )
  readonly #limit = this.#gauge(
    'stream_freshness_limit_seconds',
    'Age beyond which a stream counts as stale; absent for streams that are off or have nothing to cover.',
    'stream',
  )
  readonly #answers = this.#counter('stream_answers_total', 'Usable answers of the service.', 'stream')
  readonly #failures = this.#counter('stream_failures_total', 'Requests without a usable answer.', 'stream')
  readonly #skipped = this.#counter(
    'stream_skipped_polls_total',
    'Polls left out because the one before was still under way.',
    'stream',
  )
  readonly #written = this.#counter('rows_written_total', 'Rows inserted or updated.', 'stream')
  readonly #unchanged = this.#counter('rows_unchanged_total', 'Rows that were stored already.', 'stream')
  readonly #rejected = this.#counter('rows_rejected_total', 'Rows that could not be understood.', 'stream')
  readonly #gapsFound = this.#counter('gaps_found_total', 'Holes found by the live streams.', 'stream')

  readonly #used = this.#gauge('budget_used_requests', 'Requests of the last second.', 'operation')
  readonly #left = this.#gauge('budget_left_requests', 'Requests that the last second had room for.', 'operation')
  readonly #allowed = this.#gauge('budget_limit_requests', 'Requests that a second allows.', 'operation')
  readonly #overallUsed = this.#gauge('budget_overall_used_requests', 'Requests of the last minute, all operations.')
  readonly #overallLeft = this.#gauge('budget_overall_left_requests', 'Requests that the last minute had room for.')
  readonly #overallAllowed = this.#gauge('budget_overall_limit_requests', 'Requests that a minute allows.')
  readonly #pause = this.#gauge('pause_seconds', 'How long all requests still pause after a rejection.')
  readonly #rate = this.#gauge('rate_ratio', '1 at full speed; less for a while after a rejection.')
  readonly #waiting = this.#gauge('waiting_requests', 'Requests that wait for their place in the limits.', 'class')
  readonly #oldestWait = this.#gauge('waiting_oldest_seconds', 'How long the first of them has waited.', 'class')
  readonly #inFlight = this.#gauge('in_flight_requests', 'Requests under way.')

  readonly #batches = this.#gauge('backlog_batches', 'Answers in memory that are not committed yet.')
  readonly #rows = this.#gauge('backlog_rows', 'Rows of those answers.')
  readonly #backlogAge = this.#gauge('backlog_oldest_seconds', 'Age of the oldest of those answers; 0 without any.')
  readonly #spoolBytes = this.#gauge('spool_bytes', 'Size of the spool on disk.')
  readonly #spoolLimit = this.#gauge('spool_limit_bytes', 'Size at which the spool drops rows.')
  readonly #spoolRows = this.#gauge('spool_rows', 'Rows in the spool.')
  readonly #spoolAge = this.#gauge('spool_oldest_seconds', 'Age of the oldest rows in the spool; 0 when it is empty.')
  readonly #dropped = this.#counter('spool_dropped_rows_total', 'Rows that the full spool dropped.')

  readonly #databaseUp = this.#gauge('database_up', 'Whether the database answered when it was last asked.')
  readonly #latency = this.#gauge('database_latency_seconds', 'How long it took to answer; absent when it did not.')
  readonly #size = this.#gauge('database_size_bytes', 'Size of the database on disk.')
  readonly #gaps = this.#gauge('gaps', 'Known holes in what was recorded.', 'stream', 'state', 'reason')
  readonly #backfills = this.#gauge('backfills', 'Backfills that wait, run or have failed.', 'state')
  readonly #backfillDone = this.#gauge('backfill_done_ratio', 'How much of the running backfills is done, their mean.')
  readonly #backfillEta = this.#gauge('backfill_eta_seconds', 'How long the longest running backfill will still take.')
  readonly #clients = this.#gauge('page_clients', 'Pages that are open.')

  constructor(registry: Registry) {
    this.#registry = registry
  }

  /** @param pageClients how many pages are open */
  update(status: Status, pageClients: number): void {
    const { budget, database, backlog, spool, time } = status
    this.#ready.set(status.problems.some(({ isBlocking }) => isBlocking) ? 0 : 1)
    this.#ownsBudget.set(status.phase === 'waiting' ? 0 : 1)
    this.#start.set(status.startedAt / milli)
    this.#clients.set(pageClients)
    this.#updateStreams(status)

    for (const { operation, used, limit } of budget.operations) {
      this.#used.set({ operation }, used)
      this.#left.set({ operation }, Math.max(0, limit - used))
      this.#allowed.set({ operation }, limit)
    }
    this.#overallUsed.set(budget.overall.used)
    this.#overallLeft.set(Math.max(0, budget.overall.limit - budget.overall.used))
    this.#overallAllowed.set(budget.overall.limit)
    this.#pause.set(budget.pausedMs / milli)
    this.#rate.set(budget.rate)
    this.#inFlight.set(budget.inFlight)
    for (const { class: name, count, oldestWaitMs } of budget.waiting) {
      this.#waiting.set({ class: name }, count)
      this.#oldestWait.set({ class: name }, oldestWaitMs / milli)
    }

    const age = (at: number | null) => (at === null ? 0 : Math.max(0, time - at) / milli)
    this.#batches.set(backlog.batches)
    this.#rows.set(backlog.rows)
    this.#backlogAge.set(age(backlog.oldestReceivedAt))
    this.#spoolBytes.set(spool?.bytes ?? 0)
    this.#spoolLimit.set(spool?.limitBytes ?? 0)
    this.#spoolRows.set(spool?.rows ?? 0)
    this.#spoolAge.set(age(spool?.oldestAt ?? null))
    setCounter(this.#dropped, {}, spool?.droppedRows ?? 0)

    this.#databaseUp.set(database.isReachable ? 1 : 0)
    setOrRemove(this.#latency, {}, database.latencyMs === null ? null : database.latencyMs / milli)
    setOrRemove(this.#size, {}, database.bytes)
    this.#gaps.reset()
    for (const { stream, state, reason, count } of status.gaps) this.#gaps.set({ stream, state, reason }, count)
    this.#updateBackfills(status)
  }

  #updateStreams({ streams, time, startedAt }: Status): void {
    for (const stream of streams) {
      const labels = { stream: stream.name }
      const isWatched = stream.state !== 'off' && stream.state !== 'idle'
      this.#targets.set(labels, stream.targets)
      setOrRemove(this.#lastStored, labels, stream.lastStoredAt === null ? null : stream.lastStoredAt / milli)
      setOrRemove(this.#age, labels, isWatched ? (stream.ageMs ?? time - startedAt) / milli : null)
      setOrRemove(this.#limit, labels, isWatched ? stream.freshnessLimitMs / milli : null)
      setCounter(this.#answers, labels, stream.answers)
      setCounter(this.#failures, labels, stream.failures)
      setCounter(this.#skipped, labels, stream.skippedPolls)
      setCounter(this.#written, labels, stream.rowsWritten)
      setCounter(this.#unchanged, labels, stream.rowsUnchanged)
      setCounter(this.#rejected, labels, stream.rowsRejected)
      setCounter(this.#gapsFound, labels, stream.gapsFound)
    }
  }

  #updateBackfills({ backfills }: Status): void {
    const running = backfills.filter(({ state }) => state === 'running')
    for (const state of ['waiting', 'running', 'failed'] as const) {
      this.#backfills.set({ state }, backfills.filter((backfill) => backfill.state === state).length)
    }
    const done = running.reduce((sum, { doneShare }) => sum + (doneShare ?? 0), 0)
    this.#backfillDone.set(running.length === 0 ? 1 : done / running.length)
    this.#backfillEta.set(running.reduce((longest, { etaMs }) => Math.max(longest, etaMs ?? 0), 0) / milli)
  }

  #gauge<Label extends string>(name: string, help: string, ...labelNames: Label[]): Gauge<Label> {
    return new Gauge({ name: `${metricPrefix}${name}`, help, labelNames, registers: [this.#registry] })
  }

  #counter<Label extends string>(name: string, help: string, ...labelNames: Label[]): Counter<Label> {
    return new Counter({ name: `${metricPrefix}${name}`, help, labelNames, registers: [this.#registry] })
  }
}

type Labels<Label extends string> = Partial<Record<Label, string | number>>

/** The recorder counts by itself: its count replaces the metric's. */
function setCounter<Label extends string>(counter: Counter<Label>, labels: Labels<Label>, value: number): void {
  counter.remove(labels)
  counter.inc(labels, value)
}

function setOrRemove<Label extends string>(gauge: Gauge<Label>, labels: Labels<Label>, value: number | null): void {
  if (value === null) gauge.remove(labels)
  else gauge.set(labels, value)
}
