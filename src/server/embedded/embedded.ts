import { existsSync } from 'node:fs'
import { access, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { describeDatabaseError } from '../../db/databaseError.js'
import { makeFolder } from '../../runtime/disk.js'
import { endOrphans, signalServer, type SpawnedServer, spawnServer } from './keeper.js'
import { isFree, lastingPort } from './port.js'
import {
  databaseName,
  embeddedPaths,
  hasUsers,
  logins,
  type Passwords,
  readPasswords,
  readServerState,
  removeStaleLock,
  type ServerState,
  UserPlace,
} from './process.js'

export interface EmbeddedPostgres {
  /** Connection string of the owner of the database, with the password, on 127.0.0.1. The owner is not a superuser. */
  readonly url: string
  /** Connection string of a read-only login for analysts and commands. */
  readonly readUrl: string
  /** Connection string of a login with the same rights, used by the page alone. */
  readonly pageDatabaseUrl: string
  /**
   * Leaves the server. Resolves at once if other processes still use it, because it ends with its last user. Otherwise
   * resolves when it has shut down. A second call does nothing.
   */
  stop(): Promise<void>
}

export interface EmbeddedOptions {
  /** A directory for this server alone, created if missing. Its content survives restarts. */
  readonly dataDir: string
  readonly logger?: { info(message: string): void; warn(message: string): void; error(message: string): void }
  /** Server settings for this start only. They override the built-in ones. */
  readonly settings?: Readonly<Record<string, string>>
  /** Longest wait for a server that another process started and that does not respond. Default: a minute. */
  readonly joinWithinMs?: number
  /** Called once when the server has died and cannot be started again. */
  readonly onLost?: (error: Error) => void
}

const startDeadlineMs = 60_000
/** Longest wait for recovery after a crash. It replays the log, which takes longer than a start. */
const recoveryDeadlineMs = 600_000
const stopDeadlineMs = 60_000
const connectWithinMs = 5_000
/** Interval of checks for a dead server. Rows wait on disk for no longer than this and the start. */
const watchEveryMs = 1_000
/** Number of deaths after which the server is given up. A new start does not remove the cause. */
const maxDeaths = 5
const deathsWithinMs = 600_000
/** Time for a server that was told to stop to end its sessions in order. */
const stoppingWithinMs = 10_000

/**
 * Starts an embedded PostgreSQL on a data directory, or joins one that another process started there. It listens on
 * 127.0.0.1 only. It ends with its last user, even if that user is killed. A server that dies is started again on the
 * same port. Committed rows survive a crash. Throws one line that says what to do.
 */
export async function startEmbeddedPostgres(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  if (process.platform === 'win32') {
    throw new Error('the embedded PostgreSQL does not run on Windows; set DATABASE_URL to a server of yours')
  }
  const dataDir = resolve(options.dataDir)
  const paths = embeddedPaths(dataDir)
  await makeDirectory(dataDir)
  // The server shuts down when it has no user. Another user that came first keeps it running.
  const isBesideOthers = existsSync(paths.users) && hasUsers(paths.users)
  const place = await UserPlace.take(paths.users)
  const ending = new AbortController()
  const { signal } = ending
  let server: SpawnedServer | undefined
  let deaths: number[] = []
  /** Why the last connection failed. */
  let refusal = ''
  try {
    const { port } = await startOrJoin(isBesideOthers ? await savedPort() : 0)
    const passwords = await readPasswords(dataDir)
    if (isOwnAlive()) {
      // Another process may have written its own port, and have come too late.
      await writeFile(paths.port, `${port}\n`)
      await restorePassword(port, passwords)
    }
    const watching = watch(port)
    return {
      url: serverUrl(port, logins.owner, passwords.owner),
      readUrl: serverUrl(port, logins.reader, passwords.reader),
      pageDatabaseUrl: serverUrl(port, logins.page, passwords.page),
      async stop() {
        ending.abort()
        await watching
        await leave(dataDir, place)
      },
    }
  } catch (error) {
    await leave(dataDir, place)
    throw error
  }

  /** @param keptPort port that other users have in their addresses; 0 if there are none */
  async function startOrJoin(keptPort: number): Promise<ServerState> {
    const startedAt = performance.now()
    let failure: string | undefined
    // A server that ended before says nothing about this start.
    server = undefined
    for (;;) {
      signal.throwIfAborted()
      const state = await readServerState(dataDir)
      if (state?.status === 'ready' && (await isUsable(state))) return state
      if (state === undefined && !isOwnAlive()) {
        if (server !== undefined) failure = await judgeEnd(server)
        server = undefined
        // Loaded only to start a server. A command that joins one, such as a query, need not wait for it.
        const { requireCluster } = await import('./cluster.js')
        const cluster = await requireCluster(dataDir, options.logger)
        const port = await choosePort(keptPort)
        if (port !== undefined) {
          await writeFile(paths.port, `${port}\n`)
          await removeStaleLock(dataDir)
          server = spawnServer({ dataDir, ...cluster, settings: settingsFor(port) })
        } else if ((await readServerState(dataDir)) === undefined) {
          failure = `port ${keptPort} of 127.0.0.1 is taken`
        }
      }
      const elapsedMs = performance.now() - startedAt
      if (elapsedMs > longestWaitMs(state)) {
        throw startError(failure ?? `no response after ${Math.round(elapsedMs / 1000)} s${refusal}`)
      }
      await sleep(50, undefined, { signal })
    }
  }

  /** Returns the kept port, or else the previous one, or else another. Undefined if a server has it. */
  async function choosePort(keptPort: number): Promise<number | undefined> {
    const wanted = keptPort === 0 ? await savedPort() : keptPort
    if (wanted !== 0 && (await isFree(wanted))) return wanted
    // Another process may have started the server there meanwhile.
    if (keptPort !== 0 || (await readServerState(dataDir)) !== undefined) return undefined
    return lastingPort()
  }

  async function savedPort(): Promise<number> {
    return Number(await readFile(paths.port, 'utf8').catch(() => '0'))
  }

  function isOwnAlive(): boolean {
    return server?.isAlive() === true
  }

  /** Returns why a server ended while it started. Throws if a new start cannot help. */
  async function judgeEnd(ended: SpawnedServer): Promise<string | undefined> {
    const failure = await ended.whyItEnded()
    if (failure === undefined) noteDeath()
    // A failure may pass. Another process may have started a server first, or an old one may only just have ended.
    else if (!isPassing(failure)) throw startError(failure)
    else if (failure.includes('shared memory block')) await endOrphans(dataDir)
    return failure
  }

  /** Counts a death that the server did not cause itself. Throws if there were too many lately. */
  function noteDeath(): void {
    const now = performance.now()
    deaths = [...deaths.filter((at) => now - at < deathsWithinMs), now]
    if (deaths.length > maxDeaths) throw startError(`it has died ${deaths.length} times in ten minutes`)
  }

  function longestWaitMs(state: ServerState | undefined): number {
    if (state?.status === 'ready') return options.joinWithinMs ?? startDeadlineMs
    return state === undefined ? startDeadlineMs : recoveryDeadlineMs
  }

  /** Returns true if the server accepts connections. Looks twice, because a server about to stop still says `ready`. */
  async function isUsable({ pid, port }: ServerState): Promise<boolean> {
    if (isOwnAlive() || isBesideOthers) return canConnect(port)
    await sleep(100)
    const secondLook = await readServerState(dataDir)
    return secondLook?.pid === pid && secondLook.status === 'ready' && canConnect(port)
  }

  async function canConnect(port: number): Promise<boolean> {
    const { owner } = await readPasswords(dataDir)
    const connectionString = serverUrl(port, logins.owner, owner)
    const client = new pg.Client({ connectionString, connectionTimeoutMillis: connectWithinMs })
    client.on('error', () => undefined)
    try {
      await client.connect()
      return true
    } catch (error) {
      refusal = `: ${describeDatabaseError(error)}`
      if ((error as pg.DatabaseError).code !== '28P01') return false
      throw new Error(
        `the password in ${paths.passwords.owner} is not the one of the database beside it; restore that file`,
        {
          cause: error,
        },
      )
    } finally {
      await client.end().catch(() => undefined)
    }
  }

  /** Starts the server again whenever it dies, until this process leaves it. Never rejects. */
  async function watch(port: number): Promise<void> {
    let stoppingSince: number | undefined
    try {
      for (;;) {
        await sleep(watchEveryMs, undefined, { signal, ref: false })
        const state = await readServerState(dataDir)
        if (state?.status === 'stopping') {
          // Told by somebody else, as this process still uses it. It would wait for its clients, and refuse new ones.
          stoppingSince ??= performance.now()
          const isLate = performance.now() - stoppingSince > stoppingWithinMs
          signalServer(state.pid, isLate ? 'SIGQUIT' : 'SIGINT')
        }
        if (state !== undefined) continue
        stoppingSince = undefined
        noteDeath()
        options.logger?.error(`the embedded PostgreSQL has died and is started again; see ${paths.log}`)
        await startOrJoin(port)
        options.logger?.info('the embedded PostgreSQL runs again')
      }
    } catch (error) {
      if (!signal.aborted) options.onLost?.(error as Error)
    }
  }

  function settingsFor(port: number): Record<string, string> {
    return { unix_socket_directories: '', ...options.settings, listen_addresses: '127.0.0.1', port: String(port) }
  }

  function startError(why: string): Error {
    return new Error(`the embedded PostgreSQL is not ready: ${why}; see ${paths.log}`)
  }
}

/** Creates the data directory, accessible to its owner alone. Throws if it cannot be used. */
async function makeDirectory(dataDir: string): Promise<void> {
  try {
    await makeFolder(dataDir, 0o700)
  } catch (cause) {
    throw new Error(`the data directory ${dataDir} cannot be used: ${(cause as Error).message}, with --data-dir`, {
      cause,
    })
  }
}

/** Restores the analysts' password, because any login may change its own. Commands read that password from a file. */
async function restorePassword(port: number, passwords: Passwords): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl(port, logins.owner, passwords.owner) })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query('set scram_iterations = 1')
    await client.query(`alter role ${logins.reader} password ${client.escapeLiteral(passwords.reader)}`)
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Leaves the server. Waits for its end if no other user is left. */
async function leave(dataDir: string, place: UserPlace): Promise<void> {
  place.release()
  const startedAt = performance.now()
  while (!hasUsers(embeddedPaths(dataDir).users) && (await readServerState(dataDir)) !== undefined) {
    if (performance.now() - startedAt > stopDeadlineMs) {
      throw new Error(`the embedded PostgreSQL did not stop; see ${embeddedPaths(dataDir).log}`)
    }
    await sleep(20)
  }
}

/** Returns true for a failure that passes by itself, such as an older server's lock or a port that was taken. */
function isPassing(failure: string): boolean {
  return /lock file|shared memory block|address already in use|could not bind|could not create any TCP/i.test(failure)
}

/** The server has no certificate, so a PGSSLMODE of the environment must not count. */
function serverUrl(port: number, user: string, password: string): string {
  return `postgresql://${user}:${password}@127.0.0.1:${port}/${databaseName}?sslmode=disable`
}

/** Returns the folder of the embedded PostgreSQL in a data folder. */
export function embeddedFolder(dataDir: string): string {
  return join(dataDir, 'postgres')
}

/** Returns true if a data folder has an embedded database, even an unreadable one. The start reports its problem. */
export async function isExisting(dataDir: string): Promise<boolean> {
  const version = join(embeddedPaths(embeddedFolder(dataDir)).cluster, 'PG_VERSION')
  return access(version).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
  )
}

/**
 * Throws if a data folder has no database. Commands that read recorded data call it. A new, empty database would say
 * that nothing is missing, although the folder was only mistyped.
 */
export async function requireExisting(dataDir: string): Promise<void> {
  if (await isExisting(dataDir)) return
  throw new Error(
    `there is no database in ${dataDir}; run this where the recorder was started, or give --data-dir or DATABASE_URL`,
  )
}
