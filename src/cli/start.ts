import { type Command, Option } from 'commander'
import { startRecorder } from '../app.js'
import { ConfigError } from '../config/configError.js'
import { keepNewSpaceSmall, stopSignal } from '../runtime/process.js'
import { createLogger } from '../runtime/logger.js'
import { startArchiving } from './archiving.js'
import { endBy, Failed, sleepUnlessStopped } from './end.js'
import { acceptNewUrlOption, type CommonOptions, configuredCommand, positiveSeconds, readConfig } from './options.js'
import { refuseOverload } from './plan.js'
import { welcomeLines } from './output.js'

/** Time for the end of the process beyond the time for storing received rows. */
const endWithinMs = 10_000

interface StartOptions extends CommonOptions {
  readonly for?: number
  readonly allowOverload?: boolean
  readonly wait?: boolean
  readonly acceptNewUrl?: boolean
}

export function startCommand(): Command {
  return configuredCommand('start')
    .addOption(new Option('--for <seconds>', 'stop by itself after this time').argParser(positiveSeconds))
    .option('--allow-overload', 'start even if the configuration needs more than the limits allow')
    .option('--wait', 'start even if the service does not respond yet, and record as soon as it does')
    .addOption(acceptNewUrlOption())
    .addHelpText(
      'after',
      '\nExample:\n  EXCHANGE_BASE_URL=https://api.example.com market-recorder start --config recorder.yaml',
    )
    .action(runStart)
}

async function runStart(options: StartOptions): Promise<void> {
  // Only the owner may read files that are written below the data folder.
  process.umask(0o077)
  keepNewSpaceSmall()
  const config = await readConfig(options)
  const logger = createLogger(config.log.level)
  const stop = stopSignal()
  const lost = new AbortController()
  const ending = AbortSignal.any([stop.signal, lost.signal])
  // Limits the end, and also the start, in case something hangs. Received rows are on disk by then.
  let takeBack = (): void => undefined
  const bound = () => (takeBack = endBy(config.collector.drainTimeoutMs + endWithinMs))
  ending.addEventListener('abort', bound, { once: true })
  try {
    await refuseOverload(config, {
      allowOverload: config.collector.allowOverload || options.allowOverload === true,
      wait: options.wait === true,
    })
    const recorder = await startRecorder(config, logger, {
      signal: ending,
      onDatabaseLost(error) {
        const isMisconfigured = error instanceof ConfigError
        // The last line of the command tells of a wrong configuration.
        if (!isMisconfigured) logger.error(`the recorder ends: ${error.message}`)
        lost.abort(isMisconfigured ? error : new Failed())
      },
      acceptNewUrl: options.acceptNewUrl === true,
    })
    // Programs that read a service's output expect only log lines.
    if (process.stdout.isTTY) console.log(`\n${welcomeLines(recorder)}\n\nCtrl-C stops it.\n`)
    const { serviceClock } = recorder
    const archiving = startArchiving(config, options, {
      logger,
      failing: recorder.metrics.archiveFailing,
      serviceNow: () => serviceClock.now(),
    })
    await sleepUnlessStopped(options.for, ending)
    const archived = archiving?.stop()
    logger.info('stopping: storing what has been received')
    const isStored = await recorder.stop()
    await archived
    if (isStored) logger.info('stopped')
    else logger.error('not everything that was received could be stored in time')
    lost.signal.throwIfAborted()
    if (!isStored) throw new Failed()
  } finally {
    takeBack()
    stop.release()
  }
}
