import type { Counter, Gauge, Registry } from 'prom-client'
import { largest, sum } from '../market/values.js'
import { createMaker } from '../runtime/metrics.js'
import type { BackfillStatus, Status } from './api/contract.js'

const milli = 1000

/** Figures that a status report does not have. */
interface BesideStatus {
  /** All backfills. The report shows only some of them. */
  readonly backfills: readonly BackfillStatus[]
  /** Number of open pages. */
  readonly pageClients: number
  /** Number of connections that were closed for others. */
  readonly refusedConnections: number
  /** Number of log lines that could not be written. */
  readonly lostLogLines: number
}

/** Metrics of the current state, written from a status report just before each scrape. */
export class StatusMetrics {
  readonly #metrics: ReturnType<typeof define>

  constructor(registry: Registry) {
    this.#metrics = define(registry)
  }

  update(status: Status, { backfills, pageClients, refusedConnections, lostLogLines }: BesideStatus): void {
    const m = this.#metrics
    const { budget, database, backlog, spool, time } = status
    m.ready.set(status.problems.some(({ isBlocking }) => isBlocking) ? 0 : 1)
    m.ownsBudget.set(status.phase === 'waiting' || !status.maySend ? 0 : 1)
    m.start.set(status.startedAt / milli)
    m.clients.set(pageClients)
    setCounter(m.refusedConnections, {}, refusedConnections)
    setCounter(m.lostLogLines, {}, lostLogLines)
    this.#updateStreams(status)

    for (const { operation, used, limit } of budget.operations) {
      m.used.set({ operation }, used)
      m.left.set({ operation }, Math.max(0, limit - used))
      m.allowed.set({ operation }, limit)
    }
    m.overallUsed.set(budget.overall.used)
    m.overallLeft.set(Math.max(0, budget.overall.limit - budget.overall.used))
    m.overallAllowed.set(budget.overall.limit)
    m.pause.set(budget.pausedMs / milli)
    m.rate.set(budget.rate)
    m.inFlight.set(budget.inFlight)
    for (const { class: name, count, oldestWaitMs, overdueMs } of budget.waiting) {
      m.waiting.set({ class: name }, count)
      m.oldestWait.set({ class: name }, oldestWaitMs / milli)
      m.overdue.set({ class: name }, overdueMs / milli)
    }

    const age = (at: number | null) => (at === null ? 0 : Math.max(0, time - at) / milli)
    m.batches.set(backlog.batches)
    m.rows.set(backlog.rows)
    m.backlogAge.set(age(backlog.oldestReceivedAt))
    m.spoolBytes.set(spool.bytes)
    m.spoolLimit.set(spool.limitBytes)
    m.spoolAge.set(age(spool.since))

    this.#updateFleet(status)
    m.databaseUp.set(database.isReachable ? 1 : 0)
    setOrRemove(m.latency, {}, database.latencyMs === null ? null : database.latencyMs / milli)
    setOrRemove(m.lag, {}, database.lagMs === null ? null : database.lagMs / milli)
    setOrRemove(m.size, {}, database.bytes)
    m.jobs.reset()
    if (database.jobs !== null) {
      for (const state of ['failed', 'late'] as const) m.jobs.set({ state }, database.jobs[state])
    }
    m.contradicted.set(status.problems.filter(({ about }) => about === 'gap').length)
    m.gaps.reset()
    for (const { stream, state, reason, count } of status.gaps) m.gaps.set({ stream, state, reason }, count)
    this.#updateBackfills(status, backfills)
  }

  #updateStreams({ streams, time, startedAt }: Status): void {
    const m = this.#metrics
    for (const stream of streams) {
      const labels = { stream: stream.name }
      const isWatched = stream.state !== 'off' && stream.state !== 'idle'
      for (const field of streamGauges) m[field].set(labels, stream[field])
      for (const field of streamCounters) setCounter(m[field], labels, stream[field])
      for (const [reason, count] of Object.entries(stream.leftOut)) m.leftOut.set({ ...labels, reason }, count)
      m.failing.set(labels, stream.state === 'failing' ? 1 : 0)
      setOrRemove(m.lastStored, labels, stream.lastStoredAt === null ? null : stream.lastStoredAt / milli)
      setOrRemove(m.age, labels, isWatched ? (stream.ageMs ?? time - startedAt) / milli : null)
      setOrRemove(m.limit, labels, isWatched ? stream.freshnessLimitMs / milli : null)
    }
  }

  #updateFleet({ fleet: { recorders, unowned } }: Status): void {
    const m = this.#metrics
    for (const state of ['recording', 'gone'] as const) {
      m.fleetRecorders.set({ state }, recorders.filter((recorder) => recorder.state === state).length)
    }
    m.fleetUnowned.set(unowned)
    for (const metric of [m.fleetSilence, m.fleetInstruments, m.fleetRequests]) metric.reset()
    for (const { egress, silentMs, instruments, perSecond } of recorders) {
      m.fleetSilence.set({ egress }, silentMs / milli)
      m.fleetInstruments.set({ egress }, instruments)
      m.fleetRequests.set({ egress }, perSecond)
    }
  }

  #updateBackfills({ backfillCounts }: Status, backfills: readonly BackfillStatus[]): void {
    const m = this.#metrics
    const open = backfills.filter(({ state }) => state !== 'failed')
    for (const [state, count] of Object.entries(backfillCounts)) m.backfills.set({ state }, count)
    const done = sum(open.map(({ doneShare }) => doneShare ?? 0))
    m.backfillDone.set(open.length === 0 ? 1 : done / open.length)
    m.backfillEta.set(largest([0, ...open.map(({ etaMs }) => etaMs ?? 0)]) / milli)
  }
}

/** Metrics that show a field of a stream's status as it is. */
const streamGauges = ['targets', 'quietTargets', 'lateTargets'] as const
const streamCounters = [
  ...(['responses', 'failures', 'skippedPolls', 'gapsFound'] as const),
  ...(['rowsWritten', 'rowsUnchanged', 'rowsRejected', 'rowsDropped'] as const),
]

function define(registry: Registry) {
  const make = createMaker(registry)
  return {
    ...ofRecorder(make),
    ...ofStreams(make),
    ...ofBudget(make),
    ...ofBacklog(make),
    ...ofFleet(make),
    ...ofDatabase(make),
  }
}

type Maker = ReturnType<typeof createMaker>

function ofRecorder({ gauge }: Maker) {
  return {
    ready: gauge('ready', 'Whether /readyz passes.'),
    ownsBudget: gauge('owns_budget', 'Whether this recorder owns the budget of its egress.'),
    start: gauge('start_timestamp_seconds', 'When the recorder was started, Unix time.'),
  }
}

function ofStreams({ gauge, counter }: Maker) {
  return {
    targets: gauge('stream_targets', 'Instruments, series or lists that a stream covers.', 'stream'),
    quietTargets: gauge(
      'stream_quiet_targets',
      'How many of them are polled less often because responses bring nothing new.',
      'stream',
    ),
    lateTargets: gauge(
      'stream_late_targets',
      'How many of those polled at their normal interval are overdue.',
      'stream',
    ),
    leftOut: gauge(
      'stream_left_out',
      'Instruments that a stream could cover and does not, by what leaves them out.',
      'stream',
      'reason',
    ),
    lastStored: gauge(
      'stream_last_stored_timestamp_seconds',
      'When a response of a stream was last committed, Unix time; absent before the first.',
      'stream',
    ),
    age: gauge(
      'stream_age_seconds',
      'How long ago a stream last showed that it works; since the start when it has not yet.',
      'stream',
    ),
    limit: gauge(
      'stream_freshness_limit_seconds',
      'Age beyond which a stream counts as stale; absent for streams that are off or have nothing to cover.',
      'stream',
    ),
    failing: gauge(
      'stream_failing',
      '1 if all requests for a category of a stream have failed for 25 s, or none brought a row that can be understood.',
      'stream',
    ),
    contradicted: gauge(
      'contradicted_categories',
      'Categories whose candles contradict more than 1 % of the minutes of their fills of the last day.',
    ),
    responses: counter('stream_responses_total', 'Usable responses of the service.', 'stream'),
    failures: counter('stream_failures_total', 'Requests without a usable response.', 'stream'),
    skippedPolls: counter(
      'stream_skipped_polls_total',
      'Polls left out because the one before was still under way.',
      'stream',
    ),
    rowsWritten: counter('rows_written_total', 'Rows inserted or updated.', 'stream'),
    rowsUnchanged: counter('rows_unchanged_total', 'Rows that were stored already.', 'stream'),
    rowsRejected: counter('rows_rejected_total', 'Rows that could not be understood.', 'stream'),
    gapsFound: counter('gaps_found_total', 'Gaps found by the live streams.', 'stream'),
  }
}

function ofBudget({ gauge }: Maker) {
  return {
    used: gauge('budget_used_requests', 'Requests of the last second.', 'operation'),
    left: gauge('budget_left_requests', 'Requests that the limit of the last second left unused.', 'operation'),
    allowed: gauge('budget_limit_requests', 'Requests that a second allows.', 'operation'),
    overallUsed: gauge('budget_overall_used_requests', 'Requests of the last minute, all operations.'),
    overallLeft: gauge('budget_overall_left_requests', 'Requests that the limit of the last minute left unused.'),
    overallAllowed: gauge('budget_overall_limit_requests', 'Requests that a minute allows.'),
    pause: gauge('pause_seconds', 'How long all requests still pause after a rejection.'),
    rate: gauge('rate_ratio', '1 at full speed; less for a while after a rejection.'),
    waiting: gauge('waiting_requests', 'Requests that wait for their place in the limits.', 'class'),
    oldestWait: gauge('waiting_oldest_seconds', 'How long the first of them has waited.', 'class'),
    overdue: gauge(
      'waiting_overdue_seconds',
      'By how much the latest of them has missed its deadline while it waited.',
      'class',
    ),
    inFlight: gauge('in_flight_requests', 'Requests under way.'),
  }
}

function ofBacklog({ gauge, counter }: Maker) {
  return {
    batches: gauge('backlog_batches', 'Responses in memory that are not committed yet.'),
    rows: gauge('backlog_rows', 'Rows of those responses.'),
    backlogAge: gauge('backlog_oldest_seconds', 'Age of the oldest of those responses; 0 without any.'),
    spoolBytes: gauge('spool_bytes', 'Size of the spool on disk.'),
    spoolLimit: gauge('spool_limit_bytes', 'Size at which the spool drops its oldest responses.'),
    spoolAge: gauge('spool_age_seconds', 'How long responses have gone to the disk; 0 while the database takes them.'),
    rowsDropped: counter('rows_dropped_total', 'Rows lost because neither database nor spool took them.', 'stream'),
  }
}

function ofFleet({ gauge }: Maker) {
  return {
    fleetRecorders: gauge(
      'fleet_recorders',
      'Recorders that share the work, as this one sees them; gone: ended within the last day without signing off.',
      'state',
    ),
    fleetUnowned: gauge(
      'fleet_unowned_instruments',
      'Instruments, counted per stream, whose recorder is gone and that no other has taken over.',
    ),
    fleetSilence: gauge('fleet_silent_seconds', 'Time since a recorder last renewed its lease.', 'egress'),
    fleetInstruments: gauge('fleet_instruments', 'Instruments that a recorder requests, counted per stream.', 'egress'),
    fleetRequests: gauge('fleet_demand_requests', 'Requests per second that these take, as far as is known.', 'egress'),
  }
}

function ofDatabase({ gauge, counter }: Maker) {
  return {
    databaseUp: gauge('database_up', 'Whether the database responded when last checked.'),
    latency: gauge('database_latency_seconds', 'How long it took to respond; absent when it did not.'),
    lag: gauge('database_read_lag_seconds', 'How far the standby that is read is behind; absent without one.'),
    size: gauge('database_size_bytes', 'Size of the database on disk.'),
    jobs: gauge(
      'database_jobs',
      "TimescaleDB's own jobs whose last run failed, or that are late by half an hour; absent without such jobs.",
      'state',
    ),
    gaps: gauge('gaps', 'Known gaps in what was recorded.', 'stream', 'state', 'reason'),
    backfills: gauge('backfills', 'Backfills that wait, run or have failed.', 'state'),
    backfillDone: gauge(
      'backfill_done_ratio',
      'How much of the backfills that run or wait is done, their mean; 1 without any.',
    ),
    backfillEta: gauge(
      'backfill_eta_seconds',
      'Estimated time left of the backfill that takes longest; 0 while none is known.',
    ),
    clients: gauge('page_clients', 'Pages that are open.'),
    refusedConnections: counter(
      'connections_refused_total',
      'Connections to the page that were closed because others had no place.',
    ),
    lostLogLines: counter('log_lines_lost_total', 'Lines of the log that could not be written.'),
  }
}

type Labels<Label extends string> = Partial<Record<Label, string | number>>

/** Sets a counter to a value, because the recorder counts by itself. */
function setCounter<Label extends string>(counter: Counter<Label>, labels: Labels<Label>, value: number): void {
  counter.remove(labels)
  counter.inc(labels, value)
}

function setOrRemove<Label extends string>(gauge: Gauge<Label>, labels: Labels<Label>, value: number | null): void {
  if (value === null) gauge.remove(labels)
  else gauge.set(labels, value)
}
