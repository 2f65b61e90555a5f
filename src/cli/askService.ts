import { type Kysely, sql } from 'kysely'
import { egressOf } from '../app.js'
import type { Config } from '../config/resolve.js'
import { describeDatabaseError } from '../db/databaseError.js'
import type { Database } from '../db/schema.js'
import { takeFolderRight } from '../lease/right.js'
import { acquireLease, type Lease } from '../lease/lease.js'
import { leaseHolder } from '../lease/leaseRow.js'
import { oneLine } from '../market/oneLine.js'
import { type OpenStore, openStore } from '../openStore.js'
import { systemClock } from '../runtime/clock.js'
import { systemDisk } from '../runtime/disk.js'
import { untilUnlocked } from '../runtime/folderLock.js'
import type { Logger } from '../runtime/logger.js'
import type { Right } from '../runtime/right.js'
import { messageOf } from '../runtime/text.js'
import { isExisting } from '../server/embedded/embedded.js'

/** The configured database, as a command finds it. `none`: the first `start` creates an embedded one. */
export type FoundDatabase =
  | { readonly kind: 'none' }
  | { readonly kind: 'open'; readonly store: OpenStore }
  | { readonly kind: 'away'; readonly error: unknown }

/** Opens the configured database, or the embedded one if it exists. Creates none. */
export async function findDatabase(config: Config, logger: Logger): Promise<FoundDatabase> {
  const { url, dataDir } = config.database
  if (url === undefined && !(await isExisting(dataDir))) return { kind: 'none' }
  try {
    return { kind: 'open', store: await openStore(config, logger) }
  } catch (error) {
    return { kind: 'away', error }
  }
}

/** The result of a question to the service, or why it was not asked. */
type Asked<Result> = { readonly asked: Result } | { readonly notAsked: string }

/** Longest wait for the right. A recorder that was killed leaves it to others after 3.5 s. */
const rightWithinMs = 10_000

/**
 * Asks the service something while this command has the right to send. It has none while a recorder of the address is
 * at work, or while the database, which says so, is out of reach. Rejects with the errors of `ask`.
 */
export async function askService<Result>(
  config: Config,
  found: FoundDatabase,
  logger: Logger,
  ask: (right: Right) => Promise<Result>,
): Promise<Asked<Result>> {
  const right = await takeRight(config, found, logger)
  if (typeof right === 'string') return { notAsked: right }
  try {
    return { asked: await ask(right) }
  } finally {
    await right.release()
  }
}

type Releasable = Right & { release(): Promise<void> }

/** Resolves to the right, or to why this command does not get it. */
async function takeRight(config: Config, found: FoundDatabase, logger: Logger): Promise<Releasable | string> {
  const folder = config.database.dataDir
  const store = found.kind === 'open' ? found.store : null
  const signal = AbortSignal.timeout(rightWithinMs)
  const hasLeases = () => (store === null ? isExisting(folder) : hasLeaseTable(store.database.db))
  try {
    // Also a lease is only given once nobody sends by the lock of the folder.
    await untilUnlocked(folder, 'sending', { clock: systemClock, disk: systemDisk, signal })
  } catch (error) {
    return oneLine(messageOf(error))
  }
  try {
    if (found.kind === 'away') throw found.error
    if (store !== null && (await hasLeases())) return await takeLease(config, store, logger, signal)
  } catch (error) {
    return `the database does not say who may send: ${oneLine(describeDatabaseError(error))}`
  }
  try {
    const right = await takeFolderRight(folder, { clock: systemClock, disk: systemDisk, signal })
    if (!(await hasLeases())) return right
    await right.release()
    return atWork(config)
  } catch (error) {
    return oneLine(messageOf(error))
  }
}

const atWork = (config: Config, who: 'recorder' | 'command' = 'recorder') =>
  `a ${who} of ${egressOf(config)} is at work`

async function takeLease(
  config: Config,
  store: OpenStore,
  logger: Logger,
  signal: AbortSignal,
): Promise<Lease | string> {
  const egress = egressOf(config)
  const holder = await leaseHolder(store.database.db, egress)
  if (holder !== null) return atWork(config, holder)
  const standby = new AbortController()
  try {
    return await acquireLease(store.url, egress, {
      logger,
      clock: systemClock,
      folder: config.database.dataDir,
      // It asks for some seconds only.
      giveWay: () => undefined,
      signal: AbortSignal.any([signal, standby.signal]),
      onStandby: () => standby.abort(),
    })
  } catch (error) {
    if (standby.signal.aborted) return atWork(config)
    // A wait that ended by itself, such as the one for another command, says for what it was.
    if (error === signal.reason) return `nobody gave the right to send from ${egress} within ${rightWithinMs / 1000} s`
    throw error
  }
}

/** Resolves to false for a database that no recorder has prepared yet. */
async function hasLeaseTable(db: Kysely<Database>): Promise<boolean> {
  const { rows } = await sql<{ has: boolean }>`select to_regclass('recorder.lease') is not null as has`.execute(db)
  return rows[0]?.has === true
}
