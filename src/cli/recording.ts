import { type Recorder, startRecorder, type StartOptions } from '../app.js'
import { ConfigError } from '../config/configError.js'
import type { Config } from '../config/resolve.js'
import type { Logger } from '../runtime/logger.js'
import { stopSignal } from '../runtime/process.js'
import { endBy, Failed } from './end.js'

/** Time for the end of the process beyond the time for storing received rows. */
const endWithinMs = 10_000

/** A recording of a command, from its start to its end. */
interface Recording {
  /** Aborts when the user stops the recording, or when nothing more can be stored. */
  readonly signal: AbortSignal
  /** Resolves to the recorder; to undefined if the user stopped it before it could send. */
  start(options: Omit<StartOptions, 'signal' | 'onDatabaseLost'>): Promise<Recorder | undefined>
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
  let takeBack = (): void => undefined
  // Received rows are on disk by then.
  const bound = () => (takeBack = endBy(config.collector.drainTimeoutMs + endWithinMs))
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
      takeBack()
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
