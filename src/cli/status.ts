import { type Command, InvalidArgumentError, Option } from 'commander'
import { inUrl, stopSignal } from '../runtime/process.js'
import type { Config } from '../config/resolve.js'
import { messageOf } from '../runtime/text.js'
import { readAddress } from '../serve/source.js'
import type { Status } from '../serve/api/contract.js'
import { askRecorder } from './askRecorder.js'
import { Failed, sleepUnlessStopped } from './end.js'
import { type CommonOptions, configuredCommand, positiveSeconds, readConfig } from './options.js'
import { type Screen, statusText, type StoredState, storedText } from './statusText.js'
import { asIfService } from '../market/values.js'
import { writeData } from './output.js'

interface StatusOptions extends CommonOptions {
  readonly url?: string
  readonly watch?: number | true
  readonly json?: boolean
}

interface Response {
  /** The recorder's status; null if it does not respond. */
  readonly recorder: Status | null
  /** State read from the database, only when the recorder does not respond; otherwise null. */
  readonly stored: StoredState | null
  /** Why the recorder did not respond; null if it did. */
  readonly reason: string | null
}

const usualWatchSeconds = 2

export function statusCommand(): Command {
  return configuredCommand('status')
    .addOption(
      new Option(
        '--url <url>',
        'address of the page (default: the one that the recorder wrote to the data folder)',
      ).argParser(pageUrl),
    )
    .addOption(
      new Option('--watch [seconds]', 'refresh until stopped, by default every 2 s').argParser(positiveSeconds),
    )
    .addOption(new Option('--json', 'print one JSON object').conflicts('watch'))
    .addHelpText(
      'after',
      '\nExample:\n  market-recorder status --watch\n\nWhen no recorder responds, it shows what the database holds. Exit code: 0 if it records, 1 if not.\n' +
        '\nWhere the page requires a password, give it in SERVE_PASSWORD or SERVE_PASSWORD_FILE in the environment.',
    )
    .action(runStatus)
}

async function runStatus(options: StatusOptions): Promise<void> {
  const config = await readConfig(options)
  if (options.watch !== undefined) return watch(config, options)
  const response = await ask(config, options)
  await writeData(`${options.json === true ? JSON.stringify(response, null, 2) : textOf(response)}\n`)
  if (!isRecording(response)) throw new Failed()
}

async function watch(config: Config, options: StatusOptions): Promise<void> {
  const stop = stopSignal()
  const seconds = options.watch === true ? usualWatchSeconds : (options.watch ?? usualWatchSeconds)
  try {
    while (!stop.signal.aborted) {
      const { columns, rows } = process.stdout
      // The cursor takes the last line of the screen.
      const screen = process.stdout.isTTY ? { columns, rows: rows - 1 } : undefined
      const text = textOf(await ask(config, options), screen)
      // Draws from the top left corner down, so that the screen does not flicker.
      await writeData(process.stdout.isTTY ? `\u001b[H\u001b[2J${text}\n` : `${text}\n\n`)
      await sleepUnlessStopped(seconds, stop.signal)
    }
  } finally {
    stop.release()
  }
}

async function ask(config: Config, options: StatusOptions): Promise<Response> {
  const address = options.url ?? (await knownAddress(config))
  if (address === null) {
    const reason = 'the data folder holds no address of a recorder that runs; give --url or --data-dir'
    return { recorder: null, reason, stored: await readStored(config, reason) }
  }
  try {
    return { recorder: await askRecorder(address, config.serve.password), stored: null, reason: null }
  } catch (error) {
    const reason = messageOf(error)
    return { recorder: null, reason, stored: await readStored(config, reason) }
  }
}

async function knownAddress(config: Config): Promise<string | null> {
  const { serve, database } = config
  const left = await readAddress(database.dataDir)
  // After a crash, another recorder may respond at the address.
  if (left !== null) return left.hasEnded ? null : left.url
  // A recorder with an embedded database writes its address. At the usual port, another recorder may respond.
  const isHere = database.url === undefined
  return isHere || serve.port === 0 ? null : `http://${inUrl(serve.host)}:${serve.port}`
}

async function readStored(config: Config, whyNoRecorder: string): Promise<StoredState> {
  // These modules are loaded only if no recorder responds, because that takes longer than the rest.
  const [
    { openStore },
    { createLogger },
    { newestRows, storeOverview },
    { readJobs },
    { describeError },
    { explainMissing },
  ] = await Promise.all([
    import('../openStore.js'),
    import('../runtime/logger.js'),
    import('../ledger/read/overview.js'),
    import('../server/timescale/jobs.js'),
    import('../db/databaseError.js'),
    import('../db/readOnlyQuery.js'),
  ])
  // Without recorder and database nothing is known. The message gives both reasons.
  const failure = (error: unknown) =>
    new Error(`the recorder is not running here: ${whyNoRecorder}; ${describeError(error)}`, { cause: error })
  const store = await openStore(config, createLogger('warn')).catch((error: unknown) => {
    throw failure(error)
  })
  try {
    const { db, pool } = store.database
    const reading = Promise.all([storeOverview(db), newestRows(db), readJobs(db)])
    const [overview, newest, jobs] = await reading.catch(async (error: unknown) => {
      throw failure(await explainMissing(pool.query.bind(pool), error))
    })
    return { ...overview, newest, jobs }
  } finally {
    await store.close()
  }
}

function textOf({ recorder, stored, reason }: Response, screen?: Screen): string {
  if (recorder !== null) return statusText(recorder, process.stdout.isTTY, screen)
  const rest = stored === null ? '' : `\n${storedText(stored, asIfService(Date.now()))}`
  return `The recorder is not running here: ${reason ?? 'no reason'}${rest}`
}

function isRecording({ recorder }: Response): boolean {
  return recorder !== null && !recorder.problems.some(({ isBlocking }) => isBlocking)
}

function pageUrl(text: string): string {
  if (!URL.canParse(text) || !/^https?:/.test(text)) {
    throw new InvalidArgumentError('Give an address such as http://127.0.0.1:8080.')
  }
  return text
}
