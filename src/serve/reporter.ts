import type { Config } from '../config/resolve.js'
import type { Clock } from '../runtime/clock.js'
import type { IncidentReport } from '../runtime/incidents.js'
import type { RecorderDatabase } from '../db/database.js'
import type { BackfillStatus, Status, StreamStatus } from './api/contract.js'
import { DatabaseProbe, type DatabaseState, readNowAndThen } from './databaseProbe.js'
import { ageMs, freshnessLimits, freshnessOf } from './freshness.js'
import { Sampler } from './sampler.js'
import type { RecorderSource } from './source.js'
import { operations } from '../market/operation.js'
import { type StreamName, streamNames, streamTraits } from '../market/stream.js'
import { mayLack } from '../exchange/errors.js'
import { type MachineMs, sum } from '../market/values.js'
import { groupBy } from '../runtime/groupBy.js'
import { categories } from '../market/category.js'
import { type Jobs, jobsProblem } from '../server/timescale/server.js'
import { inWords } from '../runtime/text.js'

interface ReporterOptions {
  readonly config: Config
  readonly source: RecorderSource
  readonly database: RecorderDatabase
  /** Connections that only check whether the database responds. */
  readonly pings: RecorderDatabase
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
  readonly #readBackfills: () => Promise<readonly BackfillStatus[]>
  #backfills: readonly BackfillStatus[] = []

  constructor(options: ReporterOptions) {
    this.#options = options
    this.#sampler = new Sampler(options.source, options.clock)
    this.#probe = new DatabaseProbe(options.database, options.pings, options.clock)
    this.#limits = freshnessLimits(options.config)
    this.#readBackfills = readNowAndThen(options.clock, backfillsEveryMs, [], () => options.source.backfills())
  }

  /** Reports on the recorder. Never rejects, because the report includes a database that is away. */
  async report(): Promise<Status> {
    const { source, version, instanceId, clock } = this.#options
    const database = await this.#probe.state()
    if (database.isReachable) this.#backfills = await this.#readBackfills()
    return statusReport({
      now: clock.now(),
      nowMs: clock.monotonicMs(),
      instanceId,
      version,
      source,
      sampler: this.#sampler,
      limits: this.#limits,
      database,
      backfills: this.#backfills,
    })
  }

  /** All backfills as of the last report, which shows only some of them. */
  get backfills(): readonly BackfillStatus[] {
    return this.#backfills
  }

  close(): void {
    this.#sampler.close()
  }
}

interface ReportInput {
  readonly now: MachineMs
  /** The time of the monotonic clock. */
  readonly nowMs: number
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
/** Live requests starve if they are later than this. Requests for candles are spread over nearly a minute. */
const starvedAfterMs = 10_000
const spoolAlarmShare = 0.5
/** A busy machine sends responses by way of the disk for seconds. That needs nobody's help. */
const spoolAlarmMs = 60_000
/** A database that stored something since is slow, and not away. */
const awayAfterMs = 3_000

/** Builds the report for the page, the status command and the health checks. */
export function statusReport(input: ReportInput): Status {
  const { now, instanceId, version, source, database, backfills, sampler } = input
  const budget = source.budget()
  const { batches, rows, oldestReceivedAt, spooledBytes } = source.backlog()
  const { unowned, recorders } = source.fleet()
  const streams = streamNames.map((name) => streamStatus(input, name))
  const inState = (wanted: BackfillStatus['state']) => backfills.filter(({ state }) => state === wanted)
  const status = {
    time: now,
    startedAt: source.startedAt,
    instanceId,
    version,
    egress: source.egress,
    phase: source.phase(),
    maySend: source.maySend(),
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
    spool: {
      bytes: spooledBytes,
      limitBytes: source.spoolMaxBytes,
      since: sampler.spoolingSince,
      droppedRows: sum(streams.map(({ rowsDropped }) => rowsDropped)),
    },
    database: {
      isReachable: database.isReachable,
      latencyMs: database.latencyMs,
      lagMs: database.lagMs,
      error: database.error,
      bytes: database.overview?.bytes ?? null,
      jobs: jobsStatus(database.jobs),
    },
    fleet: { unowned, recorders: [...recorders] },
    gaps: [...(database.overview?.gaps ?? [])],
    backfills: (['running', 'failed', 'waiting'] as const).flatMap(inState).slice(0, shownBackfills),
    backfillCounts: {
      waiting: inState('waiting').length,
      running: inState('running').length,
      failed: inState('failed').length,
    },
    incidents: source.incidents().slice(0, shownIncidents),
    process: { residentBytes: process.memoryUsage.rss(), eventLoopLagP99Ms: sampler.eventLoopLagP99Ms },
  }
  return { ...status, problems: problemsOf(status, database.respondedAt) }
}

function streamStatus({ now, nowMs, source, database, sampler, limits }: ReportInput, name: StreamName): StreamStatus {
  const stats = source.streams[name]
  const { lastIdleAt: _, leftOut, outage, ...counts } = stats
  const isCollecting = source.phase() === 'collecting'
  const lasting = outage.lasting(nowMs)
  // A service may lack the other streams. They become stale.
  const isFailing = lasting !== null && !mayLack(streamTraits[name].operation)
  const isByDisk = !database.isReachable && lasting === null && !areLost(source.incidents())
  const { startedAt } = source
  const state = freshnessOf(stats, limits[name], { now, startedAt, isCollecting, isFailing, isByDisk })
  const isSaid = lasting !== null && (state === 'failing' || state === 'stale')
  return {
    name,
    state,
    outage: isSaid ? { ...lasting, categories: [...lasting.categories] } : null,
    ...counts,
    leftOut: { ...leftOut },
    ageMs: ageMs(stats, now),
    freshnessLimitMs: limits[name] ?? 0,
    rowsPerSecond: Math.max(0, sampler.rowsPerSecond(name)),
    history: [...sampler.history(name)],
  }
}

function jobsStatus(jobs: Jobs | null): Status['database']['jobs'] {
  return jobs && { count: jobs.count, failed: jobs.failed, late: jobs.late, problem: jobsProblem(jobs) }
}

type StatusFacts = Omit<Status, 'problems' | 'incidents'> & { readonly incidents: IncidentReport[] }
type Problem = Status['problems'][number]

/**
 * Returns what is wrong. While another recorder owns the budget, nothing else counts. While the database is away, what
 * follows from that is left out.
 */
function problemsOf(status: StatusFacts, respondedAt: MachineMs | null): Problem[] {
  const { egress, phase, database } = status
  if (phase !== 'waiting') return [...blockingProblems(status, respondedAt), ...otherProblems(status)]
  const message = database.isReachable
    ? `Another recorder owns the budget of ${egress}; this one takes over when it ends.`
    : `No requests are sent: the database is away, and only it can say whether another recorder sends from ${egress}.`
  return [{ about: 'egress', name: egress, message, isBlocking: true }]
}

function openIncident(
  incidents: readonly IncidentReport[],
  ...names: readonly IncidentReport['what'][]
): IncidentReport | undefined {
  return incidents.find(({ what, until }) => names.includes(what) && until === null)
}

function areLost(incidents: readonly IncidentReport[]): boolean {
  return openIncident(incidents, 'lost responses') !== undefined
}

function blockingProblems(status: StatusFacts, respondedAt: MachineMs | null): Problem[] {
  const { egress, phase, maySend, database, streams, incidents } = status
  const problems: Problem[] = []
  const add = (about: Problem['about'], name: string, message: string) =>
    problems.push({ about, name, message, isBlocking: true })
  // A database that responds need not take rows: its disk may be full.
  const loss = openIncident(incidents, 'lost responses')
  if (loss !== undefined) add('spool', 'spool', `Responses are lost: ${loss.message}`)
  if (!maySend) {
    const why = `this recorder cannot prove that it owns the budget of ${egress}`
    add('egress', egress, `No requests are sent: ${why}.`)
  }
  if (phase === 'stopping') add('recorder', 'recorder', 'The recorder is stopping.')
  if (phase === 'starting') add('recorder', 'recorder', 'The recorder is starting: it reads the lists of instruments.')
  if (!database.isReachable) add('database', 'database', awayText(status, respondedAt))
  for (const { names, message } of outageTexts(streams)) add('stream', names, message)
  for (const { name, state, outage, ageMs: age, freshnessLimitMs, targets, lateTargets } of streams) {
    if (state !== 'stale' || outage !== null || !database.isReachable) continue
    if (age !== null && age <= freshnessLimitMs) {
      const share = Math.round((lateTargets / targets) * 100)
      add('stream', name, `${name}: ${share} % of what it covers (${lateTargets} of ${targets}) are overdue.`)
      continue
    }
    const since = age === null ? 'since the start' : `for ${inWords(age)}`
    add('stream', name, `${name}: nothing stored ${since}; the limit is ${inWords(freshnessLimitMs)}.`)
  }
  return problems
}

/** Names the streams that bring nothing usable, once for each cause. */
function outageTexts(streams: readonly StreamStatus[]): { readonly names: string; readonly message: string }[] {
  const failing = streams.flatMap(({ name, outage }) => (outage === null ? [] : [{ name, ...outage }]))
  return [...groupBy(failing, ({ message }) => message)].map(([cause, ofCause]) => {
    const within = groupBy(ofCause, (one) => categories.filter((known) => one.categories.includes(known)).join(', '))
    const parts = [...within].map(([named, ones]) => namesOf(ones) + (named === '' ? '' : ` of ${named}`))
    const longest = inWords(Math.max(...ofCause.map(({ forMs }) => forMs)))
    const time = ofCause.length === 1 ? longest : `up to ${longest}`
    return { names: namesOf(ofCause), message: `${parts.join('; ')}: nothing usable for ${time}: ${cause}` }
  })
}

function namesOf(streams: readonly { readonly name: StreamName }[]): string {
  return streams.map(({ name }) => name).join(', ')
}

/** Says since when the database is away, why, and what becomes of the rows. A stored response shows that it was there. */
function awayText(
  { time, streams, database, spool, phase, maySend, incidents }: StatusFacts,
  respondedAt: MachineMs | null,
): string {
  const seen = [respondedAt, ...streams.map(({ lastStoredAt }) => lastStoredAt)].filter((at) => at !== null)
  const since = Math.max(...seen)
  const when =
    seen.length === 0
      ? 'since the start'
      : `for ${inWords(time - since)}, since ${new Date(since).toISOString().slice(0, 19).replace('T', ' ')} UTC`
  const isRefused = openIncident(incidents, 'spool', 'lost responses') !== undefined
  const isKept = phase === 'collecting' && maySend && spool.droppedRows === 0 && !isRefused
  const kept = isKept ? ' Nothing is lost: responses go to the disk until it is back.' : ''
  const why = `${(database.error ?? 'no reason').replace(/\.?$/, '.')}${kept}`
  // A busy server may be late with one response while it stores others.
  return time - since < awayAfterMs
    ? `The database hardly responds: ${why}`
    : `The database has been away ${when}: ${why}`
}

function otherProblems({ time, fleet, streams, budget, spool, database, incidents }: StatusFacts): Problem[] {
  const problems: Problem[] = []
  const add = (about: Problem['about'], name: string, message: string) =>
    problems.push({ about, name, message, isBlocking: false })
  const jobs = database.isReachable ? (database.jobs?.problem ?? null) : null
  if (jobs !== null) add('database', 'jobs', `${jobs}.`)
  for (const { egress, state, silentMs } of fleet.recorders) {
    if (state !== 'gone') continue
    const takenOver =
      fleet.unowned > 0 ? 'will be taken over by the others in a moment' : 'have been taken over by the others'
    const gone = `The recorder of ${egress} has been gone for ${inWords(silentMs)}`
    add('egress', egress, `${gone}; its instruments ${takenOver}.`)
  }
  if (budget.pausedMs > 0) {
    add('budget', 'budget', `The service rejected requests; all of them pause for ${inWords(budget.pausedMs)}.`)
  }
  const overdueMs = budget.waiting.find((waiting) => waiting.class === 'live')?.overdueMs ?? 0
  // Where nothing responds, requests wait for that, and it is a problem of its own.
  if (overdueMs > starvedAfterMs && streams.every(({ outage }) => outage === null)) {
    const late = `Live requests are late by ${inWords(overdueMs)}, waiting for their turn`
    add('budget', 'live', `${late}: the limits are exhausted. See the plan command.`)
  }
  // Recorders that share the instruments may have none of a stream.
  const areAlone = fleet.recorders.length <= 1
  for (const { name, state, lastStoredAt } of streams) {
    if (state === 'idle' && lastStoredAt !== null && areAlone)
      add('stream', name, `${name}: no instrument is left to record; the list says that they are offline or gone.`)
  }
  for (const { what, message, until } of incidents) {
    if (until !== null) continue
    if (what === 'contradicted fills') add('gap', 'fills', `${what}: ${message}; they are gaps. See the gaps command.`)
    if (what === 'instruments list' || what === 'rpi_symbols list')
      add('stream', what.replace(' list', ''), `${what}: ${message}. It is asked for again within a minute.`)
  }
  const spooledMs = time - (spool.since ?? time)
  if (spooledMs >= spoolAlarmMs && database.isReachable && !areLost(incidents)) {
    const going = `Responses have gone to the disk for ${inWords(spooledMs)}`
    add('spool', 'spool', `${going}, to be stored when the database takes them: see to its load.`)
  }
  if (spool.bytes > spool.limitBytes * spoolAlarmShare) {
    const share = Math.round((spool.bytes / spool.limitBytes) * 100)
    add('spool', 'spool', `The spool is ${share} % full; when it is full, the oldest responses are dropped.`)
  }
  return problems
}
