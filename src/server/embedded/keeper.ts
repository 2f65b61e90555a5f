import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, constants, fstatSync, openSync } from 'node:fs'
import { copyFile, open, readdir, readFile, stat, truncate } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Account } from './binaries.js'
import { embeddedPaths, isProcessOf, logins } from './process.js'

/**
 * Shell script that runs the server and waits for it. A reader waits for the end of the users' pipe, and then shuts the
 * server down. It forces the end if that takes too long. As the server's parent, the script cannot mistake another
 * process for the server.
 */
const keeper = `
"$@" 3<&- &
server=$!
(
  # Once the sleep is over and has been waited for: nothing is left behind, not even for a moment.
  trap 'exit 0' TERM
  while read -r _; do :; done <&3
  kill -INT $server
  for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 1; kill -0 $server || exit 0; done
  kill -QUIT $server
) 2>/dev/null 4<&- &
reader=$!
exec 3<&-
wait $server
status=$?
kill $reader 2>/dev/null
wait $reader
exit $status
`

/** Each line of the log says what kind of process wrote it. */
const logging = { log_line_prefix: '%m [%p] %b ' }
/** Only these processes end the server. An error of a client, even of an older server, says nothing about it. */
const startErrorLine = /\] (?:postmaster|startup) ((?:FATAL|PANIC): .*)$/
const longestStartLogBytes = 100_000
const largestLogBytes = 10_000_000

interface ServerCommand extends Cluster {
  readonly dataDir: string
  readonly settings: Readonly<Record<string, string>>
}

/** A cluster with what is needed to start a server on it. */
export interface Cluster {
  readonly account: Account
  /** Path of the server's program. */
  readonly program: string
}

/** A server that this process has started. */
export interface SpawnedServer {
  isAlive(): boolean
  /** Returns the error with which it ended by itself; undefined if somebody else ended it, or nothing did. */
  whyItEnded(): Promise<string | undefined>
}

/**
 * Starts a server in a session of its own. Neither Ctrl-C nor the end of this process ends it then. The caller must
 * hold a `UserPlace`.
 */
export function spawnServer({ dataDir, account, program, settings }: ServerCommand): SpawnedServer {
  const paths = embeddedPaths(dataDir)
  const users = openSync(paths.users, constants.O_RDONLY)
  const log = openSync(
    paths.log,
    constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW,
    0o600,
  )
  const cluster = openSync(paths.cluster, constants.O_RDONLY)
  try {
    const logFrom = fstatSync(log).size
    const options = Object.entries({ ...logging, ...settings }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const child = spawn(
      '/bin/sh',
      ['-c', keeper, 'market-recorder-keeper', program, '-D', clusterPath(paths.cluster, account), ...options],
      {
        cwd: '/',
        detached: true,
        stdio: ['ignore', 'ignore', log, users, cluster],
        env: serverEnvironment(),
        ...account,
      },
    )
    child.once('error', () => undefined)
    child.unref()
    return { isAlive: () => isAlive(child), whyItEnded: () => readStartError(paths.log, logFrom) }
  } finally {
    for (const descriptor of [users, log, cluster]) closeSync(descriptor)
  }
}

/**
 * Returns the path by which the server reaches its cluster. The account may be unable to enter the parent directories.
 * On Linux, it uses descriptor 4, which is open in every process that gets this path.
 */
export function clusterPath(path: string, account: Account): string {
  return account !== undefined && process.platform === 'linux' ? '/proc/self/fd/4' : path
}

/** Returns the environment of the server. It has no PG… variable, which could change the server, and no secret. */
export function serverEnvironment(): NodeJS.ProcessEnv {
  return {
    PATH: process.env.PATH ?? '/usr/bin:/bin',
    LC_ALL: 'C',
    TZ: 'UTC',
    // When memory runs out, a session that took too much dies. Neither the recorder nor the server's first process does.
    ...(process.platform === 'linux' && {
      PG_OOM_ADJUST_FILE: '/proc/self/oom_score_adj',
      PG_OOM_ADJUST_VALUE: '500',
    }),
  }
}

/** Returns the last error in the output of a program of the server. */
export function lastError(output: string): string | undefined {
  const lines = output.split('\n').filter((line) => /\b(FATAL|PANIC|error):/.test(line))
  return lines.at(-1)?.trim()
}

/** Returns the last error that ended a server, of those that were logged from a position on. */
async function readStartError(log: string, from: number): Promise<string | undefined> {
  const file = await open(log).catch(() => undefined)
  if (file === undefined) return undefined
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(longestStartLogBytes), 0, longestStartLogBytes, from)
    const lines = buffer.toString('utf8', 0, bytesRead).split('\n')
    return lines.map((line) => startErrorLine.exec(line)?.[1]).findLast((error) => error !== undefined)
  } finally {
    await file.close()
  }
}

/**
 * Moves the content of a large log into a file beside it. Whoever can connect can write to it, even without a password. A
 * running server goes on with the same file, at its new end.
 */
export async function shortenLog(log: string): Promise<void> {
  const { size } = await stat(log).catch(() => ({ size: 0 }))
  if (size <= largestLogBytes) return
  await copyFile(log, `${log}.1`)
  await truncate(log)
}

function isAlive({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null
}

/**
 * Ends the sessions of a server that was killed. One that computes something notices its server's death only later, and
 * no new server can start before. Does nothing on other systems than Linux.
 */
export async function endOrphans(dataDir: string): Promise<void> {
  for (const pid of await readdir('/proc').catch(() => [])) {
    const isSession = (await titleOf(pid)) !== undefined && (await isProcessOf(dataDir, Number(pid)))
    // Another process may just have started a server.
    if (isSession && !(await isProcessOf(dataDir, await parentOf(pid)))) signalServer(Number(pid), 'SIGQUIT')
  }
}

/** Returns the title of a server's process; undefined for others. The server itself has another title. */
async function titleOf(pid: string): Promise<string | undefined> {
  const title = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  return title.startsWith('postgres: ') ? title.replaceAll('\0', ' ').trim() : undefined
}

async function parentOf(pid: string): Promise<number> {
  const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  return Number(/^\d+ \(.*\) \S+ (\d+)/.exec(status)?.[1])
}

/** A new connection that waits for a lock. It usually waits for none. */
const waitsToConnect = / startup waiting$/
/** A session that waits for a lock, and is not one of the recorder or of its page. */
const waitsOfOthers = new RegExp(`^postgres: (?!(?:${logins.owner}|${logins.page}) )(?!.* startup waiting$).* waiting$`)
/** A connection that waits for so long waits behind a session that waits, too. */
const waitsForLongMs = 200

/**
 * Ends sessions of other logins that wait for a lock while a new connection waits behind them. Asking the server to do
 * so needs a connection, which this process may not have. Resolves to the titles of these sessions. Does nothing on
 * other systems than Linux. Never rejects.
 *
 * @param server number of the server's process
 */
export async function clearWayIn(server: number): Promise<string[]> {
  const waiting = async (kind: RegExp) => {
    const children = await readFile(`/proc/${server}/task/${server}/children`, 'utf8').catch(() => '')
    const sessions = children.split(' ').map(async (pid) => ({ pid, title: (await titleOf(pid)) ?? '' }))
    return (await Promise.all(sessions)).filter(({ title }) => kind.test(title))
  }
  const before = new Set((await waiting(waitsToConnect)).map(({ pid }) => pid))
  if (before.size === 0) return []
  await sleep(waitsForLongMs)
  if (!(await waiting(waitsToConnect)).some(({ pid }) => before.has(pid))) return []
  const inTheWay = await waiting(waitsOfOthers)
  try {
    for (const { pid } of inTheWay) signalServer(Number(pid), 'SIGTERM')
  } catch {
    // Somebody else's server. The next attempt to connect says why it failed.
  }
  return inTheWay.map(({ pid, title }) => title.replace('postgres:', `session ${pid} of`))
}

/** Sends a signal to a process of a server. It may have ended meanwhile. */
export function signalServer(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
