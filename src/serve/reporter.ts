import type { Config } from '../config/resolve.js'
import type { Clock } from '../runtime/clock.js'
import type { RecorderDatabase } from '../db/database.js'
import type { BackfillStatus, Status, StreamStatus } from './api/contract.js'
import { DatabaseProbe, type DatabaseState } from './databaseProbe.js'
import { ageMs, freshnessLimits, freshnessOf } from './freshness.js'
import { Sampler } from './sampler.js'
import type { RecorderSource } from './source.js'
import { operations, type StreamName, streamNames } from '../market/stream.js'
import { inWords } from '../runtime/text.js'

interface ReporterOptions {
  readonly config: Config
  readonly source: RecorderSource
  readonly database: RecorderDatabase
  readonly version: string
  readonly instanceId: string
  readonly clock: Clock
}

const backfillsEveryMs = 2_000

/** Reports on the recorder. Data that costs a query is read at most once per interval. */
export class StatusReporter {
  readonly #options: ReporterOptions
  readonly #sampler: Sampler
  readonly #probe: DatabaseProbe
  readonly #limits
  #backfills: readonly BackfillStatus[] = []
  #backfillsMs = -Infinity

  constructor(options: ReporterOptions) {
    this.#options = options
    this.#sampler = new Sampler(options.source, options.clock)
    this.#probe = new DatabaseProbe(options.database, options.clock)
    this.#limits = freshnessLimits(options.config)
  }

  /** Reports on the recorder. Never rejects, because the report includes a database that is away. */
  async report(): Promise<Status> {
    const { source, version, instanceId, clock } = this.#options
    const database = await this.#probe.state()
    if (database.isReachable) await this.#readBackfills()
    return statusReport({
      now: clock.now(),
      instanceId,
      version,
      source,
      sampler: this.#sampler,
      limits: this.#limits,
      database,
      backfills: this.#backfills,
    })
  }

  /** Reads the backfills. Keeps the previous list if the database does not respond. */
  async #readBackfills(): Promise<void> {
    const { source, clock } = this.#options
    if (clock.monotonicMs() - this.#backfillsMs < backfillsEveryMs) return
    this.#backfillsMs = clock.monotonicMs()
    const all = await source.backfills().catch(() => null)
    if (all === null) return
    this.#backfills = all
  }

  close(): void {
    this.#sampler.close()
  }
}

interface ReportInput {
  readonly now: number
  readonly instanceId: string
  readonly version: string
  readonly source: RecorderSource
  readonly sampler: Sampler
  readonly limits: Readonly<Record<StreamName, number | null>>
  readonly database: DatabaseState
  readonly backfills: readonly BackfillStatus[]
}

const shownIncidents = 30
const shownBackfills = 30
/** Live requests starve if they are later than this. Those for candles are spread over nearly a minute. */
const starvedAfterMs = 10_000
const spoolAlarmShare = 0.5

/** Builds the report for the page, the status command and the health checks. */
export function statusReport(input: ReportInput): Status {
  const { now, instanceId, version, source, database, backfills, sampler } = input
  const budget = source.budget()
  const { batches, rows, oldestReceivedAt, spooledBytes } = source.backlog()
  const { unowned, recorders } = source.fleet()
  const streams = streamNames.map((name) => streamStatus(input, name))
  const spool = {
    bytes: spooledBytes,
    limitBytes: source.spoolMaxBytes,
    since: sampler.spoolingSince,
    droppedRows: streams.reduce((sum, { rowsDropped }) => sum + rowsDropped, 0),
  }
  const inState = (wanted: BackfillStatus['state']) => backfills.filter(({ state }) => state === wanted)
  return {
    time: now,
    startedAt: source.startedAt,
    instanceId,
    version,
    egress: source.egress,
    phase: source.phase(),
    maySend: source.maySend(),
    problems: problemsOf(input, streams, spool),
    streams,
    budget: {
      overall: budget.overall,
      operations: operations.map((operation) => ({
        operation,
        ...budget.operations[operation],
        perSecond: sampler.requestsPerSecond(operation),
      })),
      waiting: (['live', 'repair', 'backfill'] as const).map((name) => ({ class: name, ...budget.waiting[name] })),
      inFlight: budget.inFlight,
      pausedMs: budget.pausedMs,
      rate: budget.rate,
    },
    backlog: { batches, rows, oldestReceivedAt },
    spool,
    database: {
      isReachable: database.isReachable,
      latencyMs: database.latencyMs,
      lagMs: database.lagMs,
      error: database.error,
      bytes: database.overview?.bytes ?? null,
    },
    fleet: { unowned, recorders: [...recorders] },
    gaps: [...(database.overview?.gaps ?? [])],
    backfills: (['running', 'failed', 'waiting'] as const).flatMap(inState).slice(0, shownBackfills),
    backfillCounts: {
      waiting: inState('waiting').length,
      running: inState('running').length,
      failed: inState('failed').length,
    },
    incidents: source
      .incidents()
      .slice(0, shownIncidents)
      .map(({ what, message, count, since, lastAt, until }) => ({ what, message, count, since, lastAt, until })),
    process: { residentBytes: process.memoryUsage.rss(), eventLoopLagP99Ms: sampler.eventLoopLagP99Ms },
  }
}

function streamStatus({ now, source, sampler, limits }: ReportInput, name: StreamName): StreamStatus {
  const stats = source.streams[name]
  const { lastIdleAt: _, leftOut, ...counts } = stats
  const isCollecting = source.phase() === 'collecting'
  return {
    name,
    state: freshnessOf(stats, limits[name], { now, startedAt: source.startedAt, isCollecting }),
    ...counts,
    leftOut: { ...leftOut },
    ageMs: ageMs(stats, now),
    freshnessLimitMs: limits[name] ?? 0,
    rowsPerSecond: Math.max(0, sampler.rowsPerSecond(name)),
    history: [...sampler.history(name)],
  }
}

function problemsOf(
  { now, source, database }: ReportInput,
  streams: readonly StreamStatus[],
  spool: Status['spool'],
): Status['problems'] {
  const problems: Status['problems'] = []
  const phase = source.phase()
  const { waiting, pausedMs } = source.budget()
  const add = (about: Status['problems'][number]['about'], name: string, message: string, isBlocking = true) =>
    problems.push({ about, name, message, isBlocking })

  if (phase === 'waiting') {
    const why = database.isReachable
      ? `Another recorder owns the budget of ${source.egress}; this one takes over when it ends.`
      : `No requests are sent: the database is away, and only it can say whether another recorder sends from ${source.egress}.`
    add('egress', source.egress, why)
    return problems
  }
  if (!source.maySend()) {
    add(
      'egress',
      source.egress,
      `No requests are sent: this recorder cannot prove that it owns the budget of ${source.egress}.`,
    )
  }
  if (phase === 'stopping') add('recorder', 'recorder', 'The recorder is stopping.')
  if (phase === 'starting') add('recorder', 'recorder', 'The recorder is starting: it reads the lists of instruments.')
  if (!database.isReachable) {
    const what = database.wasReachable ? 'does not respond' : 'has been away since the start'
    add('database', 'database', `The database ${what}: ${database.error ?? 'no reason'}`)
  }
  for (const { name, state, ageMs: age, freshnessLimitMs, targets, lateTargets } of streams) {
    if (state !== 'stale') continue
    if (age !== null && age <= freshnessLimitMs) {
      const share = Math.round((lateTargets / targets) * 100)
      add('stream', name, `${name}: ${share} % of what it covers (${lateTargets} of ${targets}) are overdue.`)
      continue
    }
    const since = age === null ? 'since the start' : `for ${inWords(age)}`
    add('stream', name, `${name}: nothing stored ${since}; the limit is ${inWords(freshnessLimitMs)}.`)
  }
  const { recorders, unowned } = source.fleet()
  for (const { egress, state, silentMs } of recorders) {
    if (state !== 'gone') continue
    const takenOver =
      unowned > 0 ? 'will be taken over by the others in a moment' : 'have been taken over by the others'
    add(
      'egress',
      egress,
      `The recorder of ${egress} has been gone for ${inWords(silentMs)}; its instruments ${takenOver}.`,
      false,
    )
  }
  if (pausedMs > 0) {
    add('budget', 'budget', `The service rejected requests; all of them pause for ${inWords(pausedMs)}.`, false)
  }
  if (waiting.live.overdueMs > starvedAfterMs) {
    const late = inWords(waiting.live.overdueMs)
    add(
      'budget',
      'live',
      `Live requests are late by ${late}, waiting for their turn: the limits are exhausted. See the plan command.`,
      false,
    )
  }
  if (spool.since !== null) {
    const wait = inWords(now - spool.since)
    add(
      'spool',
      'spool',
      `Responses have gone to the disk for ${wait}, to be stored when the database takes them.`,
      false,
    )
  }
  if (spool.bytes > spool.limitBytes * spoolAlarmShare) {
    const share = Math.round((spool.bytes / spool.limitBytes) * 100)
    add('spool', 'spool', `The spool is ${share} % full; when it is full, the oldest responses are dropped.`, false)
  }
  return problems
}
