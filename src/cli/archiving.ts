import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants, setPriority } from 'node:os'
import { text } from 'node:stream/consumers'
import { onSchedule } from '../collect/schedule/cron.js'
import { standardInput } from '../config/configError.js'
import { type Config, hasArchive } from '../config/resolve.js'
import type { ServiceMs } from '../market/values.js'
import { sleepFor, systemClock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { messageOf } from '../runtime/text.js'
import { doAgree } from '../ledger/forget.js'

interface Archiving {
  stop(): Promise<void>
}

interface Parts {
  /** Text of the configuration file that this process has read. */
  readonly configText: string
  /** Folder of the embedded database, if the command line names one. */
  readonly dataDir: string | undefined
  readonly logger: Logger
  readonly failing: { set(value: number): void }
  /** Returns the time of the service's clock; null before its first response. */
  readonly serviceNow: () => ServiceMs | null
}

/** Cron expression: once an hour, after the other hourly work. */
const hourly = '0 43 * * * *'

/** Longest wait for the service's first response. The service's clock helps to decide whether to remove anything. */
const maxWaitForServiceMs = 60_000
const waitStepMs = 1_000
/** Time for the archiver to end in order. */
const endWithinMs = 5_000

/**
 * Archives all days that are due, now and every hour. A separate process of the lowest priority does the work, so that
 * recording keeps its processor time and memory. Returns null when no archive is configured.
 */
export function startArchiving(
  { archive }: Config,
  { configText, dataDir, logger, failing, serviceNow }: Parts,
): Archiving | null {
  if (!hasArchive(archive)) return null
  const stopping = new AbortController()
  let running: Promise<void> | undefined
  const run = () => {
    running ??= archiveOnce()
      .then((isWell) => {
        if (!stopping.signal.aborted) failing.set(isWell ? 0 : 1)
      })
      .finally(() => {
        running = undefined
      })
  }
  const archiveOnce = async () => {
    for (let ms = 0; serviceNow() === null && ms < maxWaitForServiceMs; ms += waitStepMs) {
      if (!(await sleepFor(systemClock, waitStepMs, stopping.signal))) return true
    }
    const child = spawn(process.execPath, [process.argv[1] ?? '', ...archiverArguments(dataDir, serviceNow())], {
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    // The child works by the configuration of this start, and not by a file that was changed since.
    child.stdin.on('error', () => undefined).end(configText)
    if (child.pid !== undefined) lowerPriority(child.pid)
    const end = () => {
      child.kill('SIGTERM')
      // A statement may hold up the archiver for minutes. The archive also bears a sudden end.
      setTimeout(() => child.kill('SIGKILL'), endWithinMs).unref()
    }
    stopping.signal.addEventListener('abort', end, { once: true })
    try {
      const [[code], said, complaints] = await Promise.all([
        once(child, 'close') as Promise<[number | null]>,
        text(child.stdout),
        text(child.stderr),
      ])
      if (stopping.signal.aborted) return true
      for (const line of linesOf(said)) logger.info(`archive: ${line}`)
      for (const line of linesOf(complaints)) {
        if (line.startsWith('error: ')) logger.warn(`archive: ${line.slice('error: '.length)}`)
      }
      return code === 0
    } catch (error) {
      logger.warn(`the archiver could not be started: ${messageOf(error)}`)
      return false
    } finally {
      stopping.signal.removeEventListener('abort', end)
    }
  }
  const stopSchedule = onSchedule(systemClock, hourly, run)
  run()
  return {
    async stop() {
      stopSchedule()
      stopping.abort()
      await running
    },
  }
}

/** Allows removal only when the service's clock agrees. The archiver's own check may compare one clock with itself. */
export function archiverArguments(dataDir: string | undefined, serviceNow: ServiceMs | null): string[] {
  const isRemoving = serviceNow !== null && doAgree(systemClock.now(), serviceNow)
  return [
    'archive',
    ...(isRemoving ? ['--remove'] : []),
    '--config',
    standardInput,
    ...(dataDir === undefined ? [] : ['--data-dir', dataDir]),
  ]
}

function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_LOW)
  } catch {
    // The process has ended already, or the system forbids it. The archiver works at any priority.
  }
}

function linesOf(output: string): string[] {
  return output.split('\n').filter((line) => line !== '')
}
