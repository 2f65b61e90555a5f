import type { Config } from '../config/resolve.js'
import type { Clock } from '../runtime/clock.js'
import type { RecorderDatabase } from '../db/database.js'
import type { BackfillStatus, Status } from './api/contract.js'
import { DatabaseProbe } from './databaseProbe.js'
import { freshnessLimits } from './freshness.js'
import { Sampler } from './sampler.js'
import type { RecorderSource } from './source.js'
import { statusReport } from './statusReport.js'

interface ReporterOptions {
  readonly config: Config
  readonly source: RecorderSource
  readonly database: RecorderDatabase
  readonly version: string
  readonly instanceId: string
  readonly clock: Clock
}

const backfillsEveryMs = 2_000

/** Reports on the recorder to whoever asks; what costs a query is asked for at most once in a while. */
export class StatusReporter {
  readonly #options: ReporterOptions
  readonly #sampler: Sampler
  readonly #probe: DatabaseProbe
  readonly #limits
  #backfills: readonly BackfillStatus[] = []
  #backfillsMs = -Infinity

  constructor(options: ReporterOptions) {
    this.#options = options
    this.#sampler = new Sampler(options.source)
    this.#probe = new DatabaseProbe(options.database, options.clock)
    this.#limits = freshnessLimits(options.config)
  }

  /** Never rejects: a database that is away is part of the report. */
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
