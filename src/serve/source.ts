import type { OpenQueue, Queue } from '../collect/queue/queue.js'
import type { FleetReport } from '../collect/fleet/fleet.js'
import type { BackfillStatus } from './api/contract.js'
import type { IncidentReport } from '../runtime/incidents.js'
import type { CollectorStats } from '../collect/streams/streamStats.js'
import { type Operation, streamNames } from '../market/stream.js'
import type { TimeMs } from '../market/values.js'
import type { Collector } from '../collect/collector.js'
import type { Clock } from '../runtime/clock.js'

interface Use {
  readonly used: number
  readonly limit: number
}

/** How much of the service's limits is in use and who waits. */
export interface BudgetUse {
  readonly waiting: Readonly<
    Record<
      'live' | 'repair' | 'backfill',
      { readonly count: number; readonly oldestWaitMs: number; readonly overdueMs: number }
    >
  >
  /** Requests in the last second. */
  readonly operations: Readonly<Record<Operation, Use>>
  /** Requests in the last minute. */
  readonly overall: Use
  readonly inFlight: number
  readonly pausedMs: number
  readonly rate: number
}

/** Responses in memory that are not committed yet. */
type Backlog = Pick<ReturnType<Queue['backlog']>, 'batches' | 'rows' | 'oldestReceivedAt'>

/** Responses that wait on disk for the database. */
interface SpoolUse {
  readonly bytes: number
  readonly limitBytes: number
  /** Since when responses have gone to the disk; null when they go straight to the database. */
  readonly since: TimeMs | null
  readonly droppedRows: number
}

/** The running recorder, as the server sees it: read at any moment, never changed. */
export interface RecorderSource {
  readonly egress: string
  readonly startedAt: TimeMs
  /** `waiting` while another recorder owns the budget of the egress. */
  phase(): 'waiting' | 'starting' | 'collecting' | 'stopping'
  streams(): CollectorStats
  incidents(): readonly IncidentReport[]
  backlog(): Backlog
  budget(): BudgetUse
  spool(): SpoolUse
  /** Returns true if this recorder may send requests. The budget of an egress belongs to one recorder at a time. */
  maySend(): boolean
  /** How the work is shared with other recorders of the database. */
  fleet(): FleetReport
  /** Backfills that wait, run or have failed. May ask the database, and may reject when it does not respond. */
  backfills(): Promise<readonly BackfillStatus[]>
}

interface CollectorSourceOptions {
  readonly egress: string
  readonly clock: Clock
  readonly spoolMaxBytes: number
  /** Storing begins before there is a collector: responses left on disk are stored first. */
  readonly storing: Pick<OpenQueue, 'stats' | 'incidents'> & { readonly queue: Pick<Queue, 'backlog'> }
  /** undefined until this recorder owns the budget. */
  readonly collector: () => Collector | undefined
  readonly budget: () => BudgetUse
  readonly maySend: () => boolean
  readonly fleet: () => FleetReport
  readonly backfills: () => Promise<readonly BackfillStatus[]>
}

/** A collector, and the time before there is one, as the server sees it. */
export function collectorSource(options: CollectorSourceOptions): RecorderSource {
  const { egress, clock, collector, spoolMaxBytes } = options
  const { queue, stats, incidents } = options.storing
  let spoolingSince: TimeMs | null = null
  return {
    egress,
    startedAt: clock.now(),
    phase: () => collector()?.phase ?? 'waiting',
    streams: () => stats,
    incidents: () => incidents.recent(),
    backlog() {
      const { batches, rows, oldestReceivedAt } = queue.backlog()
      return { batches, rows, oldestReceivedAt }
    },
    budget: () => options.budget(),
    spool() {
      const { isSpooling, spooledBytes } = queue.backlog()
      spoolingSince = isSpooling ? (spoolingSince ?? clock.now()) : null
      const droppedRows = streamNames.reduce((sum, name) => sum + stats[name].rowsDropped, 0)
      return { bytes: spooledBytes, limitBytes: spoolMaxBytes, since: spoolingSince, droppedRows }
    },
    maySend: () => options.maySend(),
    fleet: () => options.fleet(),
    backfills: () => options.backfills(),
  }
}
