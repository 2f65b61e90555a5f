import { join } from 'node:path'
import type { Kysely } from 'kysely'
import type { Config } from '../../config/resolve.js'
import { type Clock, within } from '../../runtime/clock.js'
import type { Disk } from '../../runtime/disk.js'
import { Incidents } from '../../runtime/incidents.js'
import type { Logger } from '../../runtime/logger.js'
import type { RecorderMetrics } from '../../runtime/metrics.js'
import { openDatabase } from '../../db/database.js'
import type { Database } from '../../db/schema.js'
import { storeBatches } from '../../ledger/storeBatches.js'
import { type CollectorStats, createStats } from '../streams/streamStats.js'
import { Queue, type QueueOptions } from './queue.js'

interface OpenQueueOptions extends Pick<QueueOptions, 'onDropped'> {
  readonly config: Config
  /** Where responses are stored. */
  readonly url: string
  readonly clock: Clock
  readonly disk: Disk
  readonly logger: Logger
  readonly metrics: RecorderMetrics
}

const closeWritingMs = 1_000
/** Shared by the lanes of all streams. One table that is locked can take half of them. */
const connections = 8

/** A queue with what it counts and reports to, which the collector goes on with. */
export interface OpenQueue {
  readonly queue: Queue
  readonly db: Kysely<Database>
  readonly stats: CollectorStats
  readonly incidents: Incidents
  /** Closes it after its last write. For up to `withinMs` the disk's contents go to the database; the rest waits for the next start. */
  close(withinMs: number): Promise<void>
}

/**
 * Opens the queue, which begins to store what earlier runs left on the disk. That needs no right to send: a recorder that waits for
 * it does this, too. Rejects when the folder of the spool cannot be written to.
 */
export async function openQueue(options: OpenQueueOptions): Promise<OpenQueue> {
  const { config, url, clock, disk, logger, metrics, onDropped } = options
  // A pool of its own: it gives up what hangs, and neither waits for the page's queries nor makes them wait.
  const writing = openDatabase({
    url,
    poolSize: connections,
    applicationName: 'market-recorder writing',
    statementTimeoutMs: 20_000,
    silenceTimeoutMs: 30_000,
  })
  const stats = createStats()
  const incidents = new Incidents(logger, clock)
  try {
    const queue = await Queue.open((batches) => storeBatches(writing.db, batches), {
      root: join(config.database.dataDir, 'spool'),
      maxBytes: config.collector.spoolMaxBytes,
      disk,
      clock,
      incidents,
      stats,
      metrics,
      onDamage: ({ file, stretches, bytes }) =>
        logger.error(
          `the spool is damaged: ${stretches} record(s) or more lost, ${bytes} bytes in ${file}; check the disk`,
        ),
      ...(onDropped && { onDropped }),
    })
    const left = queue.backlog().spooledBytes
    if (left > 0) logger.info(`an earlier run left ${left} bytes in the spool; they are stored first`)
    return {
      queue,
      db: writing.db,
      stats,
      incidents,
      async close(withinMs) {
        const expiry = new AbortController()
        const stopTimer = clock.after(Math.max(0, withinMs), () => expiry.abort())
        await queue.close(expiry.signal)
        stopTimer()
        // A write that a silent server does not end keeps a connection; what it would store is on the disk.
        await within(clock, closeWritingMs, writing.close(), undefined)
      },
    }
  } catch (error) {
    await writing.close()
    throw error
  }
}
