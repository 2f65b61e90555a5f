import { execFile } from 'node:child_process'
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'
import { closeSync, constants, existsSync, openSync, readSync } from 'node:fs'
import { chmod, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { isRunning } from '../../runtime/process.js'

const run = promisify(execFile)

/** Returns the paths of an embedded server's parts in its data directory. */
export function embeddedPaths(dataDir: string) {
  return {
    cluster: join(dataDir, 'cluster'),
    users: join(dataDir, 'users.fifo'),
    log: join(dataDir, 'server.log'),
    passwords: {
      owner: join(dataDir, 'password'),
      page: join(dataDir, 'page-password'),
      reader: join(dataDir, 'reader-password'),
    },
    port: join(dataDir, 'port'),
  }
}

export type Passwords = Readonly<Record<'owner' | 'page' | 'reader', string>>

/** Reads the passwords that the first start created. */
export async function readPasswords(dataDir: string): Promise<Passwords> {
  const { owner, page, reader } = embeddedPaths(dataDir).passwords
  const read = async (file: string) => {
    const text = await readFile(file, 'utf8').catch((cause: Error) => {
      throw new Error(`the password in ${file} cannot be read: ${cause.message}; restore that file`, { cause })
    })
    // The folder may have been copied without the modes of its files.
    await chmod(file, 0o600).catch(() => undefined)
    return text.trim()
  }
  return { owner: await read(owner), page: await read(page), reader: await read(reader) }
}

/**
 * Returns what the server stores of a password. A statement with the password itself may be logged. Uses one round of
 * hashing, because the passwords are random. More rounds protect chosen passwords, and would slow down every connection.
 */
export function scramVerifier(password: string): string {
  const salt = randomBytes(16)
  const salted = pbkdf2Sync(password, salt, 1, 32, 'sha256')
  const keyOf = (name: string) => createHmac('sha256', salted).update(name).digest()
  const storedKey = createHash('sha256').update(keyOf('Client Key')).digest('base64')
  return `SCRAM-SHA-256$1:${salt.toString('base64')}$${storedKey}:${keyOf('Server Key').toString('base64')}`
}

/**
 * Logins of the embedded server. `recorder` owns the database and can create roles, which migrations need. It cannot
 * read or write files, or end other people's sessions. `page` and `reader` are members of market_reader. Only the page
 * uses `page`, so that analysts cannot change its password or take its connections. Analysts, query and export use
 * `reader`. The superuser `postgres` has no password, so nobody can log in as it. To act as it, stop the server and run
 * `postgres --single`.
 */
export const logins = { owner: 'recorder', page: 'page', reader: 'reader', superuser: 'postgres' } as const

export const databaseName = 'recorder'

/** State of a database server, as the server writes it to a file while it runs. */
export interface ServerState {
  readonly pid: number
  readonly port: number
  /** `ready`, `starting`, `stopping` and others. Empty for a moment at the start. */
  readonly status: string
}

/** Reads the state of the server on a data directory; undefined if none runs. A dead server's file does not count. */
export async function readServerState(dataDir: string): Promise<ServerState | undefined> {
  const state = await readLockFile(dataDir)
  return state !== undefined && state.pid > 0 && (await isProcessOf(dataDir, state.pid)) ? state : undefined
}

/** A starting server creates its lock file and at once writes to it. */
const writesLockWithinMs = 10_000

/**
 * Removes the lock file of a dead server with which PostgreSQL would not start, as after a crash of the machine. It may
 * be empty, and its number may be another program's: PostgreSQL only looks whether its user has a process of it.
 */
export async function removeStaleLock(dataDir: string): Promise<void> {
  const state = await readLockFile(dataDir)
  if (state === undefined) return
  const file = lockFile(dataDir)
  // The number of a single-user server is negative.
  const pid = Math.abs(state.pid)
  const isStale =
    pid > 0
      ? isRunning(pid) && !(await isProcessOf(dataDir, pid))
      : await stat(file).then(
          ({ mtimeMs }) => Date.now() - mtimeMs > writesLockWithinMs,
          () => false,
        )
  if (isStale) await rm(file, { force: true })
}

function lockFile(dataDir: string): string {
  return join(embeddedPaths(dataDir).cluster, 'postmaster.pid')
}

/** Reads the lock file, also that of a dead server. Its number is 0 or NaN if it was never written. */
async function readLockFile(dataDir: string): Promise<ServerState | undefined> {
  const text = await readFile(lockFile(dataDir), 'utf8').catch(() => undefined)
  const lines = text?.split('\n').map((line) => line.trim())
  return lines && { pid: Number(lines[0]), port: Number(lines[3] ?? 0), status: lines[7] ?? '' }
}

/**
 * Returns true for a process of the server on a data directory. After a restart of the machine, the number may be any
 * process's, even that of another server. On other systems than Linux, every PostgreSQL counts.
 */
export async function isProcessOf(dataDir: string, pid: number): Promise<boolean> {
  if (process.platform !== 'linux') {
    return run('ps', ['-p', String(pid), '-o', 'comm=']).then(
      ({ stdout }) => stdout.includes('postgres'),
      () => false,
    )
  }
  // The name is the second field, in parentheses. The state follows it, and a zombie does not run any more.
  const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  if (!/^\d+ \(postgres\) [^ZX]/.test(status)) return false
  const cluster = await stat(embeddedPaths(dataDir).cluster)
  return stat(`/proc/${pid}/cwd`).then(
    ({ ino, dev }) => ino === cluster.ino && dev === cluster.dev,
    // In a container, root may be unable to look at the processes of the server's account.
    ({ code }: NodeJS.ErrnoException) => code === 'EACCES' && process.getuid?.() === 0,
  )
}

/**
 * A place among the users of a server. The kernel removes it when the process ends in any way. After the last one, the
 * server's keeper reads the end of the pipe and shuts the server down.
 */
export class UserPlace {
  #descriptor: number | undefined

  private constructor(descriptor: number) {
    this.#descriptor = descriptor
  }

  static async take(path: string): Promise<UserPlace> {
    if (!existsSync(path)) {
      // Two processes may call this at once. The second one finds the pipe already made.
      await run('mkfifo', ['-m', '600', path]).catch((error: unknown) => {
        if (!existsSync(path)) throw error
      })
    }
    // A writer cannot open a pipe that nobody reads, so open it for reading for a moment.
    const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      return new UserPlace(openSync(path, constants.O_WRONLY | constants.O_NONBLOCK))
    } finally {
      closeSync(reader)
    }
  }

  /** Gives up the place. A second call does nothing. */
  release(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor)
    this.#descriptor = undefined
  }
}

/** Returns true if any process has a place. Reading the pipe only reaches its end if no process has one. */
export function hasUsers(path: string): boolean {
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    return readSync(reader, Buffer.alloc(1)) > 0
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return true
    throw error
  } finally {
    closeSync(reader)
  }
}
