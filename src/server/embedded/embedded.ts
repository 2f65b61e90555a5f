import { existsSync } from 'node:fs'
import { access } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { traitsOf } from '../../db/databaseError.js'
import { connectTimeoutMs, DatabaseClient } from '../../db/pool.js'
import { makeFolder } from '../../runtime/disk.js'
import {
  databaseName,
  embeddedPaths,
  hasUsers,
  logins,
  type Passwords,
  readPasswords,
  readServerState,
  scramVerifier,
  UserPlace,
} from './process.js'
import { EmbeddedServer, type ServerOptions, serverUrl } from './server.js'

interface EmbeddedPostgres {
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

export interface EmbeddedOptions extends ServerOptions {
  /** A directory for this server alone, created if missing. Its content survives restarts. */
  readonly dataDir: string
}

const stopDeadlineMs = 60_000

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
  const server = new EmbeddedServer(dataDir, isBesideOthers, options, ending.signal)
  let watching: Promise<void> | undefined
  const stop = async () => {
    ending.abort()
    await watching
    await leave(dataDir, place)
  }
  try {
    const { port, isOwn } = await server.start()
    const passwords = await readPasswords(dataDir)
    // Before anything else: readers may keep the next connection waiting already.
    watching = server.watch(port)
    if (isOwn) await restoreReader(port, passwords)
    return {
      url: serverUrl(port, logins.owner, passwords.owner),
      readUrl: serverUrl(port, logins.reader, passwords.reader),
      pageDatabaseUrl: serverUrl(port, logins.page, passwords.page),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
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

/** Number of times that the password is restored in vain before the start goes on without it. */
const restoreAttempts = 10

/**
 * Restores the analysts' password and settings, because any login may change its own. Commands use that login, and read
 * the password from a file. A session that is just changing them holds the row, so such sessions are ended. Recording
 * does not wait for them for long.
 */
async function restoreReader(port: number, passwords: Passwords): Promise<void> {
  const connectionString = serverUrl(port, logins.owner, passwords.owner)
  const client = new DatabaseClient({ connectionString, connectionTimeoutMillis: connectTimeoutMs })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query("set lock_timeout = '1s'")
    for (let attempt = 1; attempt <= restoreAttempts; attempt++) {
      await client.query('select pg_terminate_backend(pid) from pg_stat_activity where usename = $1', [logins.reader])
      try {
        await client.query(`alter role ${logins.reader} password '${scramVerifier(passwords.reader)}';
          alter role ${logins.reader} reset all; alter role ${logins.reader} in database ${databaseName} reset all`)
        return
      } catch (error) {
        if (!traitsOf(error).isLocked) throw error
      }
    }
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
