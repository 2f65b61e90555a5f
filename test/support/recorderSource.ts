import { pino } from 'pino'
import { loadConfig } from '../../src/config/resolve.js'
import type { FleetReport } from '../../src/collect/fleet/fleet.js'
import type { IncidentReport } from '../../src/runtime/incidents.js'
import { type CollectorStats, createStats } from '../../src/collect/streams/stream.js'
import { operations } from '../../src/market/operation.js'
import type { ServiceMs, TimeMs } from '../../src/market/values.js'
import type { BackfillStatus } from '../../src/serve/api/contract.js'
import { createMetrics } from '../../src/runtime/metrics.js'
import { type RunningServer, startServer } from '../../src/serve/server.js'
import type { RecorderSource } from '../../src/serve/source.js'
import { systemClock } from '../../src/runtime/clock.js'

type Changeable<T> = { -readonly [Key in keyof T]: T[Key] }

/** A recorder whose state a test sets as it likes. */
export interface SettableSource extends RecorderSource {
  readonly state: {
    /** The time of the service's clock; null as before its first response. */
    serviceNow: () => ServiceMs | null
    phase: ReturnType<RecorderSource['phase']>
    readonly stats: CollectorStats
    incidents: IncidentReport[]
    backlog: Changeable<ReturnType<RecorderSource['backlog']>>
    budget: Changeable<ReturnType<RecorderSource['budget']>>
    maySend: boolean
    fleet: FleetReport
    backfills: BackfillStatus[]
  }
}

export function settableSource(startedAt: TimeMs): SettableSource {
  const perOperation = operations.map((name) => [name, { used: 0, limit: name.startsWith('rpi') ? 10 : 20 }])
  const state: SettableSource['state'] = {
    serviceNow: () => null,
    phase: 'collecting',
    stats: createStats(),
    incidents: [],
    backlog: { batches: 0, rows: 0, oldestReceivedAt: null, spooledBytes: 0, isSpooling: false },
    budget: {
      waiting: {
        live: { count: 0, oldestWaitMs: 0, overdueMs: 0 },
        repair: { count: 0, oldestWaitMs: 0, overdueMs: 0 },
        backfill: { count: 0, oldestWaitMs: 0, overdueMs: 0 },
      },
      operations: Object.fromEntries(perOperation) as ReturnType<RecorderSource['budget']>['operations'],
      overall: { used: 0, limit: 6000 },
      inFlight: 0,
      pausedMs: 0,
      rate: 1,
    },
    maySend: true,
    fleet: { unowned: 0, recorders: [] },
    backfills: [],
  }
  return {
    state,
    egress: 'test',
    startedAt,
    spoolMaxBytes: 1_000_000,
    streams: state.stats,
    serviceNow: () => state.serviceNow(),
    phase: () => state.phase,
    incidents: () => state.incidents,
    backlog: () => state.backlog,
    budget: () => state.budget,
    maySend: () => state.maySend,
    fleet: () => state.fleet,
    backfills: () => Promise.resolve(state.backfills),
  }
}

/** Makes every stream look as if it had just stored an answer. */
export function freshen({ state }: SettableSource, at: TimeMs): void {
  for (const stats of Object.values(state.stats)) {
    stats.targets = 1
    stats.lastStoredAt = at
  }
}

/** Serves the page of a recorder on any free port. */
export async function serveSource(source: RecorderSource, databaseUrl: string): Promise<RunningServer> {
  const config = loadConfig({ env: {} })
  config.serve.port = 0
  const metrics = createMetrics({ version: 'test' })
  const logger = pino({ level: 'silent' })
  return startServer({ config, source, metrics, databaseUrl, version: 'test', logger, clock: systemClock })
}
