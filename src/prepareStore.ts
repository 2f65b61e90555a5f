import { readStorage } from './collect/retention.js'
import { type Config, storageOf } from './config/resolve.js'
import { ConfigError } from './config/configError.js'
import type { OpenStore } from './openStore.js'
import { type Clock, sleepFor } from './runtime/clock.js'
import type { Logger } from './runtime/logger.js'
import { withoutLogin } from './runtime/text.js'
import { describeDatabaseError, isLockTableFull, traitsOf } from './db/databaseError.js'
import { endSessionsInTheWay } from './db/locks.js'
import { migrateToLatest, pendingMigrations } from './db/migrate.js'
import {
  compareService,
  findOtherService,
  moveService,
  noteService,
  type OtherService,
  type OwnDatabase,
  readIdentity,
  serviceOf,
} from './db/identity.js'
import { plannedChanges, reconcile } from './server/timescale/reconcile.js'
import { canCreateExtension, detectServer } from './server/timescale/server.js'

type Prepared = Pick<OpenStore, 'database'>

/** Returns what `prepareStore` would change, one line each. */
export async function pendingChanges({ database }: Prepared, config: Config): Promise<string[]> {
  const migrations = await pendingMigrations(database)
  const isMigrated = migrations.length === 0
  const storage = isMigrated ? await storageIn(database.db, config) : storageOf(config)
  const features = await plannedChanges(database.db, storage, { isMigrated })
  return [...migrations.map((name) => `apply migration ${name}`), ...features]
}

/** Brings the database to the newest schema and its time-series features in line with the configuration. */
export async function prepareStore(store: Prepared, config: Config, logger: Logger): Promise<void> {
  await migrate(store, logger)
  await configure(store, config, logger)
}

/**
 * Prepares the database for commands that run beside a recorder, perhaps with another configuration. In an existing
 * database, only the schema is changed. Other retention ages than the recorder's would remove rows and their rollups.
 */
export async function prepareBeside(store: Prepared, config: Config, logger: Logger): Promise<void> {
  const { isNew } = await migrate(store, logger)
  if (isNew) await configure(store, config, logger)
}

async function migrate(store: Prepared, logger: Logger): Promise<{ readonly isNew: boolean }> {
  const { applied, isNew } = await migrateToLatest(store.database)
  if (applied.length > 0) logger.info(`migrated: ${applied.join(', ')}`)
  return { isNew }
}

async function configure(store: Prepared, config: Config, logger: Logger): Promise<void> {
  const { db } = store.database
  for (const change of await reconcile(db, await storageIn(db, config))) logger.info(change)
}

/** Reads how each table is kept. Only where tables have chunks does that depend on the recorded market. */
async function storageIn(db: Prepared['database']['db'], config: Config): Promise<ReturnType<typeof storageOf>> {
  const hasChunks = (await detectServer(db)).kind !== 'postgresql' || (await canCreateExtension(db))
  return hasChunks ? readStorage(db, config) : storageOf(config)
}

/** The service and the database of a recorder, as they are compared with what is kept on its disk. */
interface Belonging {
  /** The configured service, and the hosts that it had before. */
  readonly services: readonly string[]
  readonly database: OwnDatabase
}

interface ServiceOptions {
  /** True to replace the service that the database holds by the configured one. */
  readonly accept?: boolean
  /** True to make a copy of a database the heir of that one. */
  readonly becomesHeir?: boolean
}

/**
 * Ensures that one database holds the data of one service, so that simulated and real data are not mixed unnoticed.
 * Throws a `ConfigError` when the database holds another service. Only warns when the new one runs on this machine,
 * because tests and checks start many simulators. Resolves to null for a command without the address of a service.
 */
export async function requireService(
  { database: { db, same } }: Prepared,
  { exchange: { baseUrl } }: Config,
  logger: Logger,
  { accept = false, becomesHeir = false }: ServiceOptions = {},
): Promise<Belonging | null> {
  if (baseUrl === undefined) return null
  const address = withoutLogin(baseUrl)
  if (accept) await moveService(db, address)
  refuseOther(await compareService(db, address), address, logger)
  const { former } = await db.selectFrom('recorder.service').select('former').executeTakeFirstOrThrow()
  const identity = await readIdentity(db, { becomesHeir })
  same.require(identity.id)
  return { services: [serviceOf(address), ...former], database: identity }
}

/** Notes the service, which has responded, before its first row is stored. Throws as `requireService`. */
export async function noteResponding(
  { database: { db } }: Prepared,
  { exchange: { baseUrl } }: Config,
  logger: Logger,
): Promise<void> {
  if (baseUrl === undefined) return
  const address = withoutLogin(baseUrl)
  const other = await noteService(db, address)
  // A start has warned of a simulator already.
  if (other?.isLoopback !== true) refuseOther(other, address, logger)
}

function refuseOther(other: OtherService | null, address: string, logger: Logger): void {
  if (other === null) return
  const line = describeOther(other, address)
  if (!other.isLoopback) throw new ConfigError([line])
  logger.warn(line)
}

function describeOther({ baseUrl, notedAt, isLoopback }: OtherService, address: string): string {
  const isHeld = `the database holds what ${baseUrl} sent (since ${new Date(notedAt).toISOString()})`
  return isLoopback
    ? `${isHeld}, and now data of ${address} is mixed with it`
    : `${isHeld}, and the configuration names ${address}; use another database (DATABASE_URL, or --data-dir for the embedded one), or --accept-new-url if that service has moved`
}

/** Returns what a start would say of the service that the database holds; null if nothing. */
export async function serviceProblem(
  { database }: Pick<Prepared, 'database'>,
  { exchange: { baseUrl } }: Config,
): Promise<{ readonly line: string; readonly isRefused: boolean } | null> {
  if (baseUrl === undefined || (await pendingMigrations(database)).length > 0) return null
  const address = withoutLogin(baseUrl)
  const other = await findOtherService(database.db, address)
  return other && { line: describeOther(other, address), isRefused: !other.isLoopback }
}

const prepareAgainMs = 1_000
const complainEveryMs = 30_000

interface PrepareOptions extends ServiceOptions {
  readonly logger: Logger
  readonly clock: Clock
  readonly signal: AbortSignal
}

/**
 * Prepares the database at the start of a recording, and lets nothing be stored before that. If the database is away,
 * the preparation waits until it is available.
 */
export class DatabaseGate {
  /** Resolves to whether the database is prepared. It is not after an abort, or if it holds another service. */
  prepared = Promise.resolve(true)
  /** Resolves to whether its features are in line with the configuration, too. */
  configured = Promise.resolve(false)
  readonly #store: OpenStore
  readonly #config: Config
  readonly #options: PrepareOptions
  readonly #onRefused: ((error: ConfigError) => void) | undefined
  #problem: Error | null = null
  #belonging: Belonging | null = null
  #isNoted = false

  /** @param onRefused called if the database turns out to hold another service after the start */
  constructor(store: OpenStore, config: Config, options: PrepareOptions, onRefused?: (error: Error) => void) {
    this.#store = store
    this.#config = config
    this.#options = options
    this.#onRefused = onRefused
  }

  /** Resolves when the database is prepared, or is known to be away. Rejects on other errors, such as a wrong password. */
  async start(): Promise<void> {
    const { logger, clock } = this.#options
    try {
      await this.#prepare()
    } catch (error) {
      const { isAway, isLocked } = traitsOf(error)
      // A table may be locked by a reader's open transaction. That is no reason not to record.
      if (this.#store.isEmbedded || !(isAway || isLocked)) throw error
      logger.warn(`${describeDatabaseError(error)}; recording to disk until it is available`)
      this.prepared = this.#prepareLater(clock.monotonicMs())
    }
    this.configured = this.prepared.then((isPrepared) => isPrepared && this.#configure())
  }

  /** False while the database is not prepared. */
  get isOpen(): boolean {
    return this.#problem === null
  }

  /** The service and the database that are recorded; null until the database is prepared. */
  get belonging(): Belonging | null {
    return this.#belonging
  }

  /** True once the service is noted. */
  get isNoted(): boolean {
    return this.#isNoted
  }

  /**
   * Called before something is stored. Rejects while the database is not prepared. Notes the service at the first call
   * after that, and rejects if another one was noted meanwhile.
   */
  async mayStore(): Promise<void> {
    if (this.#problem !== null) throw this.#problem
    if (this.#isNoted) return
    try {
      await noteResponding(this.#store, this.#config, this.#options.logger)
    } catch (error) {
      if (error instanceof ConfigError) {
        this.#problem = error
        this.#onRefused?.(error)
      }
      throw error
    }
    this.#isNoted = true
  }

  async #prepare(attempt = 1): Promise<void> {
    const { logger } = this.#options
    try {
      await migrate(this.#store, logger)
      this.#belonging = await requireService(this.#store, this.#config, logger, this.#options)
      this.#problem = null
    } catch (error) {
      await endSessionsInTheWay(this.#store.database.db, error).catch(() => undefined)
      this.#problem = error as Error
      // Sessions that held all locks were ended, if that was possible.
      if (isLockTableFull(error) && attempt === 1) return this.#prepare(2)
      throw error
    }
  }

  async #prepareLater(complainedMs: number): Promise<boolean> {
    try {
      const isDone = await untilDone(() => this.#prepare(), this.#options, 'the database is not ready', complainedMs)
      if (isDone) this.#options.logger.info('the database is available')
      return isDone
    } catch (error) {
      this.#onRefused?.(error as ConfigError)
      return false
    }
  }

  /** Configures features while recording runs. Large tables take hours, and another process may be at work on them. */
  #configure(): Promise<boolean> {
    const work = () => configure(this.#store, this.#config, this.#options.logger)
    return untilDone(work, this.#options, 'the features of the database are not as configured yet', -Infinity)
  }
}

/**
 * Repeats work until it succeeds, because its failure must not end the recording. Resolves to false after an abort.
 * Rejects with a `ConfigError`, because only the user can mend the configuration.
 *
 * @param complainedMs time of the last complaint, on the monotonic clock
 */
async function untilDone(
  work: () => Promise<void>,
  { logger, clock, signal }: PrepareOptions,
  complaint: string,
  complainedMs: number,
): Promise<boolean> {
  let lastMs = complainedMs
  do {
    try {
      await work()
      return true
    } catch (error) {
      if (error instanceof ConfigError) throw error
      if (clock.monotonicMs() - lastMs < complainEveryMs) continue
      lastMs = clock.monotonicMs()
      logger.warn(`${complaint}: ${describeDatabaseError(error)}`)
    }
  } while (await sleepFor(clock, prepareAgainMs, signal))
  return false
}
