import type { ChildProcess } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { withClient } from './embeddedClient.js'
import { serverAccount } from './embeddedAccount.js'
import { logins } from './embeddedRoles.js'
import { type EmbeddedPostgres, type IsUsable, joinRunning, leave, serverUrl } from './embeddedJoin.js'
import { prepareDirectory, rememberedPassword, requireCluster, rotateLog } from './embeddedDirectory.js'
import {
  embeddedPaths,
  lastError,
  readServerState,
  type ServerState,
  spawnServer,
  UserPlace,
} from './embeddedProcess.js'

export type { EmbeddedPostgres } from './embeddedJoin.js'

export interface EmbeddedOptions {
  /** A directory of its own, created if missing. What is in it survives restarts. */
  readonly dataDir: string
  readonly logger?: { info(message: string): void; warn(message: string): void; error(message: string): void }
  /** Default: the port of the last time if it is free, any free one otherwise. */
  readonly port?: number
  /** Server settings on top of ours, for this start only. */
  readonly settings?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** Asked before a running server is joined; by default whether its logins are there. */
  readonly isUsable?: IsUsable
}

const database = 'recorder'
const startDeadlineMs = 60_000
/** Recovery after a crash replays what was not written to the tables yet. */
const recoveryDeadlineMs = 600_000

/**
 * Starts a PostgreSQL of our own on a data directory, or joins the one that another process has started there. It listens on
 * 127.0.0.1 only and ends with its last user, also when that is killed. Durable: what is committed survives a crash.
 * Throws one line that says what to do.
 */
export async function startEmbeddedPostgres(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  if (process.platform === 'win32') {
    throw new Error('the embedded PostgreSQL does not run on Windows; set DATABASE_URL to a server of yours')
  }
  const dataDir = resolve(options.dataDir)
  const paths = embeddedPaths(dataDir)
  const joined = await joinRunning(dataDir, database, options.isUsable)
  if (joined !== undefined) return joined
  const account = await serverAccount()
  await prepareDirectory(dataDir, account)
  // Loaded only to start a server: who joins one, as a query does, need not wait for it.
  const { findBinaries } = await import('./embeddedBinaries.js')
  const binaries = await findBinaries(account)
  const passwords = {
    owner: await rememberedPassword(paths.password, account),
    reader: await rememberedPassword(paths.readerPassword, account),
  }
  await requireCluster(dataDir, account, binaries, { database, passwords }, options.logger)
  await rotateLog(paths.log)

  // Before looking for a server: one that is found cannot end any more.
  const place = await UserPlace.take(paths.users)
  let child: ChildProcess | undefined
  let isStopping = false
  try {
    const server = await startOrJoin()
    const url = urlOf(server.port, database)
    await requireDatabase(urlOf(server.port, 'postgres'))
    child?.once('exit', () => {
      if (!isStopping) options.logger?.error(`the embedded PostgreSQL has ended unexpectedly; see ${paths.log}`)
    })
    return {
      url,
      readUrl: urlOf(server.port, database, logins.reader, passwords.reader),
      async stop() {
        isStopping = true
        await leave(dataDir, place)
      },
    }
  } catch (error) {
    isStopping = true
    await leave(dataDir, place)
    throw error
  }

  async function startOrJoin(): Promise<ServerState> {
    const startedAt = performance.now()
    let failure: string | undefined
    let wantedPort = options.port ?? Number(await readFile(paths.port, 'utf8').catch(() => '0'))
    for (;;) {
      options.signal?.throwIfAborted()
      const state = await readServerState(dataDir)
      if (state?.status === 'ready' && (await isUsable(state))) return state
      if (state === undefined && (child === undefined || child.exitCode !== null || child.signalCode !== null)) {
        // Another process may have won the race to start it, or an old server may only just be gone: both pass.
        if (child !== undefined) failure = await whyItEnded(paths.log)
        if (failure !== undefined && !isPassing(failure)) throw startError(failure)
        const port = await freePort(wantedPort, options.port !== undefined)
        wantedPort = options.port ?? 0
        await writeFile(paths.port, `${port}\n`)
        child = spawnServer({ dataDir, account, program: binaries.postgres, settings: settingsFor(port) })
        child.once('error', () => undefined)
      }
      const elapsedMs = performance.now() - startedAt
      if (elapsedMs > (state === undefined ? startDeadlineMs : recoveryDeadlineMs)) {
        throw startError(failure ?? `no response after ${Math.round(elapsedMs / 1000)} s`)
      }
      await sleep(50, undefined, options.signal && { signal: options.signal })
    }
  }

  /** A server that is told to stop in this very moment still says that it is ready, so look twice. */
  async function isUsable({ pid, port }: ServerState): Promise<boolean> {
    if (child !== undefined && child.exitCode === null && child.signalCode === null) return canConnect(port)
    await sleep(100)
    const again = await readServerState(dataDir)
    return again?.pid === pid && again.status === 'ready' && canConnect(port)
  }

  async function canConnect(port: number): Promise<boolean> {
    try {
      const connection = { connectionString: urlOf(port, 'postgres'), connectionTimeoutMillis: 5_000 }
      return await withClient(connection, async () => true)
    } catch (error) {
      if ((error as pg.DatabaseError).code !== '28P01') return false
      throw new Error(`the password in ${paths.password} is not the one of the database beside it; restore that file`, {
        cause: error,
      })
    }
  }

  function settingsFor(port: number): Record<string, string> {
    return { unix_socket_directories: '', ...options.settings, listen_addresses: '127.0.0.1', port: String(port) }
  }

  function urlOf(port: number, name: string, user: string = logins.owner, password = passwords.owner): string {
    return serverUrl({ port, name, user, password })
  }

  function startError(why: string): Error {
    return new Error(`the embedded PostgreSQL did not start: ${why}; see ${paths.log}`)
  }
}

/** What goes away by itself: the lock and the memory of an older server, and a port that somebody else was faster to take. */
function isPassing(failure: string): boolean {
  return /lock file|shared memory block|address already in use|could not bind|could not create any TCP/i.test(failure)
}

async function whyItEnded(log: string): Promise<string | undefined> {
  const text = await readFile(log, 'utf8').catch(() => '')
  return lastError(text.slice(-5_000))
}

async function requireDatabase(url: string): Promise<void> {
  try {
    await withClient({ connectionString: url }, async (client) => {
      const { rowCount } = await client.query('select from pg_database where datname = $1', [database])
      if (rowCount === 0) await client.query(`create database ${database}`)
    })
  } catch (error) {
    // Another process was faster.
    const { code } = error as pg.DatabaseError
    if (code !== '42P04' && code !== '23505') throw error
  }
}

/** The wanted port of 127.0.0.1 if it is free (throws when it must be that one), any free one otherwise. */
async function freePort(wanted: number, isFixed: boolean): Promise<number> {
  const listen = (port: number) =>
    new Promise<number>((done, reject) => {
      const probe = createServer()
      probe.once('error', reject)
      probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
        const address = probe.address()
        probe.close(() => done(typeof address === 'object' && address !== null ? address.port : port))
      })
    })
  try {
    return await listen(wanted)
  } catch (cause) {
    if (isFixed)
      throw new Error(`port ${wanted} of 127.0.0.1 is taken; choose another for the embedded PostgreSQL`, { cause })
    return listen(0)
  }
}
