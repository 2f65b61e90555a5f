import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { describeDatabaseError } from '../../db/databaseError.js'
import { DatabaseClient } from '../../db/pool.js'
import { random } from '../../runtime/randomness.js'
import { clearWayIn, endOrphans, signalServer, shortenLog, type SpawnedServer, spawnServer } from './keeper.js'
import {
  databaseName,
  embeddedPaths,
  logins,
  readPasswords,
  readServerState,
  removeStaleLock,
  type ServerState,
} from './process.js'

const startDeadlineMs = 60_000
/** Longest wait for recovery after a crash. It replays the log, which takes longer than a start. */
const recoveryDeadlineMs = 600_000
const connectWithinMs = 5_000
/** Interval of checks for a dead server. Rows wait on disk for no longer than this and the start. */
const watchEveryMs = 1_000
/** Number of deaths after which the server is given up. A new start does not remove the cause. */
const maxDeaths = 5
const deathsWithinMs = 600_000
/** The log names sessions that kept others from connecting as often. The server's log has each of them. */
const sayAgainMs = 600_000
/** Time for a server that was told to stop to end its sessions in order. */
const stoppingWithinMs = 10_000

export interface ServerOptions {
  readonly logger?: { info(message: string): void; warn(message: string): void; error(message: string): void }
  /** Server settings for this start only. They override the built-in ones. */
  readonly settings?: Readonly<Record<string, string>>
  /** Longest wait for a server that another process started and that does not respond. Default: a minute. */
  readonly joinWithinMs?: number
  /** Called once when the server has died and cannot be started again. */
  readonly onLost?: (error: Error) => void
}

/** The server of a data directory, which this process has joined or started. The caller must hold a `UserPlace`. */
export class EmbeddedServer {
  readonly #dataDir: string
  readonly #paths: ReturnType<typeof embeddedPaths>
  readonly #isBesideOthers: boolean
  readonly #options: ServerOptions
  readonly #signal: AbortSignal
  #server: SpawnedServer | undefined
  #deaths: number[] = []
  /** When the log last named sessions that kept others from connecting. */
  #saidAt = -Infinity
  /** Why the last connection failed. */
  #refusal = ''

  /** @param isBesideOthers other users of the server keep it running */
  constructor(dataDir: string, isBesideOthers: boolean, options: ServerOptions, signal: AbortSignal) {
    this.#dataDir = dataDir
    this.#paths = embeddedPaths(dataDir)
    this.#isBesideOthers = isBesideOthers
    this.#options = options
    this.#signal = signal
  }

  /** Starts the server, or joins it. Throws one line that says what to do. */
  async start(): Promise<{ readonly port: number; readonly isOwn: boolean }> {
    const { port } = await this.#startOrJoin(this.#isBesideOthers ? await this.#savedPort() : 0)
    const isOwn = this.#isOwnAlive()
    // Another process may have written its own port, and have come too late.
    if (isOwn) await writeFile(this.#paths.port, `${port}\n`)
    return { port, isOwn }
  }

  /** @param keptPort port that other users have in their addresses; 0 if there are none */
  async #startOrJoin(keptPort: number): Promise<ServerState> {
    let startedAt = performance.now()
    let failure: string | undefined
    // A server that ended before says nothing about this start.
    this.#server = undefined
    for (;;) {
      this.#signal.throwIfAborted()
      const state = await readServerState(this.#dataDir)
      if (state?.status === 'ready' && (await this.#isUsable(state))) return state
      if (state === undefined && !this.#isOwnAlive()) {
        if (this.#server !== undefined) failure = await this.#judgeEnd(this.#server)
        this.#server = undefined
        // Loaded only to start a server. A command that joins one, such as a query, need not wait for it.
        const { requireCluster } = await import('./cluster.js')
        const before = performance.now()
        const cluster = await requireCluster(this.#dataDir, this.#options.logger)
        // The server's own time begins once there is a cluster.
        startedAt += performance.now() - before
        const port = await this.#choosePort(keptPort)
        if (port !== undefined) {
          await writeFile(this.#paths.port, `${port}\n`)
          await removeStaleLock(this.#dataDir)
          this.#server = spawnServer({ dataDir: this.#dataDir, ...cluster, settings: this.#settingsFor(port) })
        } else if ((await readServerState(this.#dataDir)) === undefined) {
          failure = `port ${keptPort} of 127.0.0.1 is taken`
        }
      }
      const elapsedMs = performance.now() - startedAt
      if (elapsedMs > this.#longestWaitMs(state)) {
        throw this.#startError(failure ?? `no response after ${Math.round(elapsedMs / 1000)} s${this.#refusal}`)
      }
      await sleep(50, undefined, { signal: this.#signal })
    }
  }

  /** Returns the kept port, or else the previous one, or else another. Undefined if a server has it. */
  async #choosePort(keptPort: number): Promise<number | undefined> {
    const wanted = keptPort === 0 ? await this.#savedPort() : keptPort
    if (wanted !== 0 && (await isFree(wanted))) return wanted
    // Another process may have started the server there meanwhile.
    if (keptPort !== 0 || (await readServerState(this.#dataDir)) !== undefined) return undefined
    return lastingPort()
  }

  async #savedPort(): Promise<number> {
    return Number(await readFile(this.#paths.port, 'utf8').catch(() => '0'))
  }

  #isOwnAlive(): boolean {
    return this.#server?.isAlive() === true
  }

  /** Returns why a server ended while it started. Throws if a new start cannot help. */
  async #judgeEnd(ended: SpawnedServer): Promise<string | undefined> {
    const failure = await ended.whyItEnded()
    if (failure === undefined) this.#noteDeath()
    // A failure may pass. Another process may have started a server first, or an old one may only just have ended.
    else if (!isPassing(failure)) throw this.#startError(failure)
    else if (failure.includes('shared memory block')) await endOrphans(this.#dataDir)
    return failure
  }

  /** Counts a death that the server did not cause itself. Throws if there were too many lately. */
  #noteDeath(): void {
    const now = performance.now()
    this.#deaths = [...this.#deaths.filter((at) => now - at < deathsWithinMs), now]
    if (this.#deaths.length > maxDeaths)
      throw this.#startError(`it has died ${this.#deaths.length} times in ten minutes`)
  }

  #longestWaitMs(state: ServerState | undefined): number {
    if (state?.status === 'ready') return this.#options.joinWithinMs ?? startDeadlineMs
    return state === undefined ? startDeadlineMs : recoveryDeadlineMs
  }

  /** Returns true if the server accepts connections. Looks twice, because a server about to stop still says `ready`. */
  async #isUsable(state: ServerState): Promise<boolean> {
    if (this.#isOwnAlive() || this.#isBesideOthers) return this.#canConnect(state)
    await sleep(100)
    const secondLook = await readServerState(this.#dataDir)
    return secondLook?.pid === state.pid && secondLook.status === 'ready' && this.#canConnect(state)
  }

  async #canConnect({ pid, port }: ServerState): Promise<boolean> {
    const { owner } = await readPasswords(this.#dataDir)
    const connectionString = serverUrl(port, logins.owner, owner)
    const client = new DatabaseClient({ connectionString, connectionTimeoutMillis: connectWithinMs })
    client.on('error', () => undefined)
    const clearing = setInterval(() => void clearWayIn(pid), watchEveryMs)
    try {
      await client.connect()
      return true
    } catch (error) {
      this.#refusal = `: ${describeDatabaseError(error)}`
      if ((error as pg.DatabaseError).code !== '28P01') return false
      throw new Error(
        `the password in ${this.#paths.passwords.owner} is not the one of the database beside it; restore that file`,
        { cause: error },
      )
    } finally {
      clearInterval(clearing)
      await client.end().catch(() => undefined)
    }
  }

  /** Keeps the way to the server free. Starts it again whenever it dies, until this process leaves it. Never rejects. */
  async watch(port: number): Promise<void> {
    let stoppingSince: number | undefined
    try {
      for (;;) {
        await sleep(watchEveryMs, undefined, { signal: this.#signal, ref: false })
        await shortenLog(this.#paths.log).catch(() => undefined)
        const state = await readServerState(this.#dataDir)
        if (state?.status === 'stopping') {
          // Somebody else told it, as this process still uses it. It would wait for its clients, and refuse new ones.
          stoppingSince ??= performance.now()
          const isLate = performance.now() - stoppingSince > stoppingWithinMs
          signalServer(state.pid, isLate ? 'SIGQUIT' : 'SIGINT')
        }
        if (state !== undefined) {
          await this.#clearWayIn(state)
          continue
        }
        stoppingSince = undefined
        this.#noteDeath()
        this.#options.logger?.error(`the embedded PostgreSQL has died and is started again; see ${this.#paths.log}`)
        await this.#startOrJoin(port)
        this.#options.logger?.info('the embedded PostgreSQL runs again')
      }
    } catch (error) {
      if (!this.#signal.aborted) this.#options.onLost?.(error as Error)
    }
  }

  async #clearWayIn({ pid }: ServerState): Promise<void> {
    const ended = await clearWayIn(pid)
    const now = performance.now()
    if (ended.length === 0 || now - this.#saidAt < sayAgainMs) return
    this.#saidAt = now
    this.#options.logger?.warn(`nobody could connect behind it, so it was ended: ${ended.join(', ')}`)
  }

  #settingsFor(port: number): Record<string, string> {
    return { unix_socket_directories: '', ...this.#options.settings, listen_addresses: '127.0.0.1', port: String(port) }
  }

  #startError(why: string): Error {
    return new Error(`the embedded PostgreSQL is not ready: ${why}; see ${this.#paths.log}`)
  }
}

/** Returns true for a failure that passes by itself, such as an older server's lock or a port that was taken. */
function isPassing(failure: string): boolean {
  return /lock file|shared memory block|address already in use|could not bind|could not create any TCP/i.test(failure)
}

/** The server has no certificate, so a PGSSLMODE of the environment must not count. */
export function serverUrl(port: number, user: string, password: string): string {
  return `postgresql://${user}:${password}@127.0.0.1:${port}/${databaseName}?sslmode=disable`
}

/**
 * Systems give ports from 32768 (Linux) or 49152 on to outgoing connections. While a server is away, even the client
 * that tries to reach it could be given its port.
 */
const lowestPort = 20_000
const highestPort = 32_767

/** Returns a free port of 127.0.0.1 that no other program gets by chance while its server is away. */
export async function lastingPort(): Promise<number> {
  for (;;) {
    const port = lowestPort + Math.floor(random() * (highestPort - lowestPort + 1))
    if (await isFree(port)) return port
  }
}

/** Returns true if a server could listen on this port of 127.0.0.1. */
function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)))
  })
}
