import type { Collector } from '../collect/collector.js'
import { createStats } from '../collect/streamStats.js'
import type { TimeMs } from '../market/values.js'
import type { BackfillStatus } from './api/contract.js'
import type { BudgetUse, RecorderSource, SpoolUse } from './source.js'

export interface CollectorSourceOptions {
  readonly egress: string
  readonly startedAt: TimeMs
  /** undefined until this recorder owns the budget. */
  collector(): Collector | undefined
  budget(): BudgetUse
  spool?(): SpoolUse | null
  backfills?(): Promise<readonly BackfillStatus[]>
}

/** A collector, and the time before there is one, as the server sees it. */
export function collectorSource(options: CollectorSourceOptions): RecorderSource {
  const { egress, startedAt, collector } = options
  const nothing = createStats()
  return {
    egress,
    startedAt,
    phase: () => collector()?.phase ?? 'waiting',
    streams: () => collector()?.stats ?? nothing,
    incidents: () => collector()?.incidents.recent() ?? [],
    backlog: () => collector()?.backlog() ?? { batches: 0, rows: 0, oldestReceivedAt: null, spooledBytes: 0, isSpooling: false },
    budget: () => options.budget(),
    spool: () => options.spool?.() ?? null,
    backfills: async () => (await options.backfills?.()) ?? [],
  }
}
