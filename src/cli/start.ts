import { type Command, Option } from 'commander'
import { keepNewSpaceSmall } from '../runtime/process.js'
import { createLogger } from '../runtime/logger.js'
import { startArchiving } from './archiving.js'
import { sleepUnlessStopped } from './end.js'
import {
  acceptNewUrlOption,
  type CommonOptions,
  configuredCommand,
  positiveSeconds,
  readConfigAndText,
} from './options.js'
import { refuseOverload } from './plan.js'
import { openRecording } from './recording.js'
import { print, welcomeLines } from './output.js'

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
