import type { Kysely } from 'kysely'
import { join } from 'node:path'
import type { Config } from '../../config/resolve.js'
import { openDatabase } from '../../db/database.js'
import { describeError } from '../../db/databaseError.js'
import { type OwnDatabase, type SameDatabase, serviceOf } from '../../db/identity.js'
import type { Database } from '../../db/schema.js'
import type { ServiceMs } from '../../market/values.js'
import { type Clock, within } from '../../runtime/clock.js'
import type { Disk } from '../../runtime/disk.js'
import { becomeFileOwner } from '../../runtime/folderLock.js'
import type { Logger } from '../../runtime/logger.js'
import type { RecorderMetrics } from '../../runtime/metrics.js'
import { ledgerOf, Queue, type QueueOptions } from './queue.js'
import { claimSegments, folderOf, noteDatabase } from './spoolFolders.js'

/** Says which database is stored to, and since when. */
interface StoreGate {
  /** The service and the database that responses are for; null until the database is known. */
  readonly belonging: { readonly services: readonly string[]; readonly database: OwnDatabase } | null
  /** Called before each write. Rejects while nothing may be stored. Until then responses go to the disk. */
  mayStore(): Promise<void>
}

interface OpenQueueOptions extends Pick<QueueOptions, 'incidents' | 'stats' | 'onDropped'> {
  readonly config: Config
  /** Database that responses are stored in. */
  readonly url: string
  readonly clock: Clock
  readonly serviceNow: () => ServiceMs | null
  readonly disk: Disk
  readonly logger: Logger
  readonly metrics: RecorderMetrics
  readonly gate: StoreGate
  readonly same: SameDatabase
  /** True to store what waits on the disk for other databases of the service. */
  readonly takesOthers: boolean
}

const closeWritingMs = 1_000
/** Number of connections that the lanes of all streams share. One locked table can take half of them. */
const connections = 8

/** A queue and the database that it stores to. */
export interface OpenQueue {
  readonly queue: Queue
  readonly db: Kysely<Database>
  /** Takes over what recorders that have ended left for this database. It is stored before what is written later. */
  claimOrphans(): Promise<void>
  /**
   * Closes the queue after its last write. For up to `withinMs` the contents of the disk go to the database. The rest
   * waits for the next start.
   */
  close(withinMs: number): Promise<void>
}

/**
 * Opens the queue. When the database is prepared, the queue begins to store what earlier runs left on the disk. A
 * recorder that waits for the right to send does this, too, because storing needs no right. Rejects if the folder of
 * the spool cannot be written to.
 */
export async function openQueue(options: OpenQueueOptions): Promise<OpenQueue> {
  const { config, url, clock, serviceNow, disk, logger, metrics, stats, incidents, gate, onDropped } = options
  const root = join(config.database.dataDir, 'spool')
  const service = serviceOf(config.exchange.baseUrl ?? '')
  const atFirst = gate.belonging
  const recorder = await becomeFileOwner(disk)
  const folder = folderOf({ service, database: atFirst?.database ?? null }, recorder.name)
  // The queue has its own pool, so that it and the page's queries never wait for each other. Its statements time out.
  const writing = openDatabase({
    url,
    poolSize: connections,
    applicationName: 'market-recorder writing',
    statementTimeoutMs: 20_000,
    silenceTimeoutMs: 30_000,
    same: options.same,
  })
  try {
    const queue = await Queue.open(
      ledgerOf(writing.db, () => gate.mayStore()),
      {
        root: join(root, folder),
        maxBytes: config.collector.spoolMaxBytes,
        disk,
        clock,
        serviceNow,
        incidents,
        stats,
        metrics,
        onDamage: ({ file, stretches, bytes }) =>
          logger.error(
            `the spool is damaged: ${stretches} record(s) or more lost, ${bytes} bytes in ${file}; check the disk`,
          ),
        ...(onDropped && { onDropped }),
      },
    )
    let told: ReadonlySet<string> = new Set()
    const claimOrphans = async () => {
      const { services = [service], database: own = null } = gate.belonging ?? {}
      if (atFirst === null && own !== null) await noteDatabase(join(root, folder), own, disk, logger)
      const lines = await claimSegments({ root, folder, services, own, takesOthers: options.takesOthers, disk })
      for (const line of lines) if (!told.has(line)) logger.warn(line)
      told = new Set(lines)
      await queue.claimOrphans()
    }
    await claimOrphans()
    const left = queue.backlog().spooledBytes
    if (left > 0) logger.info(`an earlier run left ${left} bytes in the spool; they are stored first`)
    return {
      queue,
      db: writing.db,
      claimOrphans: () =>
        claimOrphans().catch((error: unknown) => {
          const todo = 'what earlier recorders left is stored after the next start'
          logger.warn(`the spool could not be read whole: ${describeError(error)}; ${todo}`)
        }),
      async close(withinMs) {
        const expiry = new AbortController()
        const stopTimer = clock.after(Math.max(0, withinMs), () => expiry.abort())
        await queue.close(expiry.signal)
        recorder.release()
        stopTimer()
        // A silent server may never end a write, so the wait is short. What the write would store is on the disk.
        await within(clock, closeWritingMs, writing.close(), undefined)
      },
    }
  } catch (error) {
    await writing.close()
    throw error
  }
}
