import { join } from 'node:path'
import type { Kysely } from 'kysely'
import type { Config } from '../../config/resolve.js'
import type { Clock } from '../../runtime/clock.js'
import type { Disk } from '../../runtime/disk.js'
import { Incidents } from '../../runtime/incidents.js'
import type { Logger } from '../../runtime/logger.js'
import type { RecorderMetrics } from '../../runtime/metrics.js'
import { openDatabase } from '../../db/database.js'
import type { Database } from '../../db/schema.js'
import { type CollectorStats, createStats } from '../streamStats.js'
import { BatchSpool } from './batchSpool.js'
import { Sink } from './sink.js'

export interface OpenSinkOptions {
  readonly config: Config
  /** Where responses are stored. */
  readonly url: string
  readonly clock: Clock
  readonly disk: Disk
  readonly logger: Logger
  readonly metrics: RecorderMetrics
}

/** A sink with what it counts and reports to, which the collector goes on with. */
export interface OpenSink {
  readonly sink: Sink
  readonly db: Kysely<Database>
  readonly stats: CollectorStats
  readonly incidents: Incidents
  /** Closes it after its last write. For up to `withinMs` the spool's contents go to the database; the rest waits for the next start. */
  close(withinMs: number): Promise<void>
}

/**
 * Opens spool and sink, and begins to store what earlier runs left on the disk. That needs no right to send: a recorder that
 * waits for it does this, too. Rejects when the folder of the spool cannot be written to.
 */
export async function openSink({ config, url, clock, disk, logger, metrics }: OpenSinkOptions): Promise<OpenSink> {
  const { maxInFlightWrites, spoolMaxBytes } = config.collector
  const spool = await BatchSpool.open({
    disk,
    clock,
    root: join(config.database.dataDir, 'spool'),
    maxBytes: spoolMaxBytes,
    onDamage: ({ file, stretches, bytes }) =>
      logger.error(
        `the spool is damaged: ${stretches} record(s) or more lost, ${bytes} bytes in ${file}; check the disk`,
      ),
  })
  if (!spool.isEmpty) logger.info(`an earlier run left ${spool.bytes} bytes in the spool; they are stored first`)
  // A pool of its own: it gives up what hangs, and neither waits for the page's queries nor makes them wait.
  const writing = openDatabase({
    url,
    poolSize: maxInFlightWrites * 2,
    applicationName: 'market-recorder writing',
    statementTimeoutMs: 20_000,
    silenceTimeoutMs: 30_000,
    // As long as one is open, no server takes the place of another without being noticed.
    keepOpen: 1,
  })
  const stats = createStats()
  const incidents = new Incidents(logger, clock)
  const sink = new Sink(writing.db, { maxInFlightWrites, clock, incidents, stats, spool, metrics })
  return {
    sink,
    db: writing.db,
    stats,
    incidents,
    async close(withinMs) {
      const expiry = new AbortController()
      const stopTimer = clock.after(Math.max(0, withinMs), () => expiry.abort())
      await sink.close(expiry.signal)
      stopTimer()
      await writing.close()
    },
  }
}
