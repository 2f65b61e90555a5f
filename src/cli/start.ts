import { type Command, Option } from 'commander'
import { keepNewSpaceSmall, stopSignal } from '../runtime/process.js'
import { createLogger, type Logger } from '../runtime/logger.js'
import { endBy, Failed, sleepUnlessStopped } from './end.js'
import {
  acceptNewUrlOption,
  type CommonOptions,
  configuredCommand,
  positiveSeconds,
  readConfigAndText,
} from './options.js'
import { refuseOverload } from './plan.js'
import { print, welcomeLines } from './output.js'
import { type Recorder, type StartOptions as RecorderOptions, startRecorder } from '../app.js'
import { ConfigError, standardInput } from '../config/configError.js'
import { type Config, hasArchive } from '../config/resolve.js'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants, setPriority } from 'node:os'
import { text } from 'node:stream/consumers'
import { onSchedule } from '../collect/schedule/cron.js'
import type { ServiceMs } from '../market/values.js'
import { sleepFor, systemClock } from '../runtime/clock.js'
import { messageOf } from '../runtime/text.js'
import { doAgree } from '../ledger/forget.js'

interface StartOptions extends CommonOptions {
  readonly for?: number
  readonly allowOverload?: boolean
  readonly wait?: boolean
  readonly acceptNewUrl?: boolean
  readonly adopt?: boolean
}

export function startCommand(): Command {
  return configuredCommand('start')
    .addOption(new Option('--for <seconds>', 'stop by itself after this time').argParser(positiveSeconds))
    .option('--allow-overload', 'start even if the configuration needs more than the limits allow')
    .option('--wait', 'start even if the service does not respond yet, and record as soon as it does')
    .addOption(acceptNewUrlOption())
    .option(
      '--adopt',
      'store what waits on the disk for another database of this service, such as the one this is a copy of',
    )
    .addHelpText(
      'after',
      '\nExample:\n  EXCHANGE_BASE_URL=https://api.example.com npx market-recorder start --config recorder.yaml',
    )
    .action(runStart)
}

async function runStart(options: StartOptions): Promise<void> {
  // Only the owner may read files that are written below the data folder.
  process.umask(0o077)
  keepNewSpaceSmall()
  const { config, text } = await readConfigAndText(options)
  const logger = createLogger(config.log.level)
  const recording = openRecording(config, logger)
  try {
    const recorder = await recording.start({
      acceptNewUrl: options.acceptNewUrl === true,
      adopt: options.adopt === true,
      admit: refuseOverload(config, {
        allowOverload: config.collector.allowOverload || options.allowOverload === true,
        wait: options.wait === true,
      }),
    })
    if (recorder === undefined) return
    // Programs that read a service's output expect only log lines.
    if (process.stdout.isTTY) print(`\n${welcomeLines(recorder, config.database.dataDir)}\n\nCtrl-C stops it.\n`)
    const { serviceClock } = recorder
    const archiving = startArchiving(config, {
      configText: text,
      dataDir: options.dataDir,
      logger,
      failing: recorder.metrics.archiveFailing,
      serviceNow: () => serviceClock.now(),
    })
    await sleepUnlessStopped(options.for, recording.signal)
    const beside = archiving?.stop()
    logger.info('stopping: storing what has been received')
    await recording.stop(recorder, beside && { beside })
  } finally {
    recording.release()
  }
}

/** Time for the end of the process beyond the time for storing received rows. */
const endWithinMs = 10_000

/** A recording of a command, from its start to its end. */
interface Recording {
  /** Aborts when the user stops the recording, or when nothing more can be stored. */
  readonly signal: AbortSignal
  /** Resolves to the recorder; to undefined if the user stopped it before it could send. */
  start(options: Omit<RecorderOptions, 'signal' | 'onDatabaseLost'>): Promise<Recorder | undefined>
  /**
   * Stops the recorder. Throws `Failed`, or a `ConfigError`, if not everything that was received is stored.
   *
   * @param ends.beforeDatabaseCloses called when all rows are stored
   * @param ends.beside what ends meanwhile, and is waited for
   */
  stop(recorder: Recorder, ends?: { beforeDatabaseCloses?: () => Promise<void>; beside?: Promise<void> }): Promise<void>
  /** Returns signals and deadline. Call it at the end, whatever happened. */
  release(): void
}

/** Listens to the user, and bounds how long the process takes to end, in case something hangs. */
export function openRecording(config: Config, logger: Logger): Recording {
  const stop = stopSignal()
  const lost = new AbortController()
  const signal = AbortSignal.any([stop.signal, lost.signal])
  let stopTimer = (): void => undefined
  // Received rows are on disk by then.
  const bound = () => (stopTimer = endBy(config.collector.drainTimeoutMs + endWithinMs))
  signal.addEventListener('abort', bound, { once: true })
  return {
    signal,
    async start(options) {
      try {
        return await startRecorder(config, logger, { ...options, signal, onDatabaseLost })
      } catch (error) {
        if (!stop.signal.aborted) throw error
        logger.info('stopped')
        return undefined
      }
    },
    async stop(recorder, { beforeDatabaseCloses, beside } = {}) {
      const isStored = await recorder.stop(lost.signal.aborted ? undefined : beforeDatabaseCloses)
      await beside
      if (isStored) logger.info('stopped')
      else logger.error('not everything that was received could be stored in time')
      lost.signal.throwIfAborted()
      if (!isStored) throw new Failed()
    },
    release() {
      stopTimer()
      stop.release()
    },
  }

  function onDatabaseLost(error: Error): void {
    const isMisconfigured = error instanceof ConfigError
    // The last line of the command tells of a wrong configuration.
    if (!isMisconfigured) logger.error(`the recorder ends: ${error.message}`)
    lost.abort(isMisconfigured ? error : new Failed())
  }
}

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
const archiverEndsWithinMs = 5_000

/**
 * Archives all days that are due, now and every hour. A separate process of the lowest priority does the work, so that
 * recording keeps its processor time and memory. Returns null when no archive is configured.
 */
function startArchiving(
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
      setTimeout(() => child.kill('SIGKILL'), archiverEndsWithinMs).unref()
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
