import type { FleetReport } from '../collect/fleet/fleetReport.js'
import type { Collector } from '../collect/collector.js'
import type { OpenQueue } from '../collect/queue/openQueue.js'
import type { Queue } from '../collect/queue/queue.js'
import { streamNames } from '../market/stream.js'
import type { TimeMs } from '../market/values.js'
import type { Clock } from '../runtime/clock.js'
import type { BackfillStatus } from './api/contract.js'
import type { BudgetUse, RecorderSource } from './source.js'

export interface CollectorSourceOptions {
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
