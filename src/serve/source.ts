import type { Backlog as QueueBacklog } from '../collect/queue/queue.js'
import type { FleetReport } from '../collect/fleet/fleetReport.js'
import type { BackfillStatus } from './api/contract.js'
import type { IncidentReport } from '../runtime/incidents.js'
import type { CollectorStats } from '../collect/streamStats.js'
import type { Operation } from '../market/stream.js'
import type { TimeMs } from '../market/values.js'

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
export type Backlog = Pick<QueueBacklog, 'batches' | 'rows' | 'oldestReceivedAt'>

/** Responses that wait on disk for the database. */
export interface SpoolUse {
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
