import { type Command, InvalidArgumentError, Option } from 'commander'
import { stopSignal } from '../runtime/process.js'
import type { Config } from '../config/resolve.js'
import { messageOf, printableValue } from '../runtime/text.js'
import { readAddress } from '../serve/source.js'
import type { Status } from '../serve/api/contract.js'
import { Failed, sleepUnlessStopped } from './end.js'
import { type CommonOptions, configuredCommand, positiveSeconds, readConfig } from './options.js'
import { type Screen, statusText, type StoredState, storedText } from './statusText.js'
import { asIfService } from '../market/values.js'
import { writeData } from './output.js'
import { pageUser } from '../serve/security.js'

interface StatusOptions extends CommonOptions {
  readonly url?: string
  readonly watch?: number | true
  readonly json?: boolean
}

interface StatusSource {
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
      '\nExample:\n  npx market-recorder status --watch\n\nWhen no recorder responds, it shows what the database holds. Exit code: 0 if it records, 1 if not.\n' +
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

async function ask(config: Config, options: StatusOptions): Promise<StatusSource> {
  const address = options.url ?? (await knownAddress(config))
  if (address === null) {
    const reason =
      'the recorder is not running here: the data folder holds no address of a recorder that runs; give --url or --data-dir'
    return { recorder: null, reason, stored: await readStored(config, reason) }
  }
  try {
    return { recorder: await askRecorder(address, config.serve.password), stored: null, reason: null }
  } catch (error) {
    const reason = messageOf(error)
    return { recorder: null, reason, stored: await readStored(config, reason) }
  }
}

/** Finds the recorder of the data folder. Who else listens at `serve.port` must not get the password. */
async function knownAddress({ database }: Config): Promise<string | null> {
  const left = await readAddress(database.dataDir)
  return left === null || left.hasEnded ? null : left.url
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
    import('../server/timescale/server.js'),
    import('../db/databaseError.js'),
    import('../db/readOnlyQuery.js'),
  ])
  // Without recorder and database nothing is known. The message gives both reasons.
  const failure = (error: unknown) => new Error(`${whyNoRecorder}; ${describeError(error)}`, { cause: error })
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

function textOf({ recorder, stored, reason }: StatusSource, screen?: Screen): string {
  if (recorder !== null) return statusText(recorder, process.stdout.isTTY, screen)
  const rest = stored === null ? '' : `\n${storedText(stored, asIfService(Date.now()))}`
  return `${(reason ?? '').replace(/^./, (first) => first.toUpperCase())}${rest}`
}

function isRecording({ recorder }: StatusSource): boolean {
  return recorder !== null && !recorder.problems.some(({ isBlocking }) => isBlocking)
}

function pageUrl(text: string): string {
  if (!URL.canParse(text) || !/^https?:/.test(text)) {
    throw new InvalidArgumentError('Give an address such as http://127.0.0.1:8080.')
  }
  return text
}

const patienceMs = 5_000
/** Largest response that is read. A recorder of all instruments sends a tenth of it. */
const maxBytes = 10_000_000

/**
 * Reads the status of the recorder whose page is at an address. Its texts are safe to print. Rejects with the reason and
 * the address without its password if nothing responds there, or something that is no recorder.
 *
 * @param password of the page, for an address without credentials
 */
export async function askRecorder(address: string, password: string | undefined): Promise<Status> {
  const { url, authorization } = withoutCredentials(address, password)
  try {
    return await readStatus(url, authorization)
  } catch (error) {
    const isLate = error instanceof Error && error.name === 'TimeoutError'
    const message = isLate
      ? `the recorder at ${url} has not responded within ${patienceMs / 1_000} s; it may be busy`
      : `no recorder responds at ${url}: ${causeOf(error)}`
    throw new Error(message, { cause: error })
  }
}

/**
 * Splits the credentials from an address, so that messages can show the address without the password. An address
 * without credentials gets the configured password.
 */
function withoutCredentials(
  address: string,
  configured: string | undefined,
): { readonly url: string; readonly authorization: string | null } {
  const url = new URL(address)
  const isNamed = url.username !== ''
  const [user, password] = isNamed ? [decoded(url.username), decoded(url.password)] : [pageUser, configured]
  return {
    url: url.origin,
    authorization: password === undefined ? null : `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

async function readStatus(url: string, authorization: string | null): Promise<Status> {
  const response = await fetch(new URL('/api/status', url), {
    headers: authorization === null ? {} : { authorization },
    // Refuses redirects, because the password is for the page alone.
    redirect: 'error',
    signal: AbortSignal.timeout(patienceMs),
  })
  if (response.status === 401) throw new Error('it refuses the password; set SERVE_PASSWORD or SERVE_PASSWORD_FILE')
  if (!response.ok) throw new Error(`it says ${response.status}`)
  const { recorderResponses } = await import('../serve/api/contract.js')
  const { success, data } = recorderResponses.status.safeParse(await jsonOf(response))
  if (!success) throw new Error('what it says is no status of this version; is it another program, or version?')
  return printableValue(data)
}

/** Reads a body as JSON; undefined if it is none. Rejects if it is larger than `maxBytes`. */
async function jsonOf({ body }: Response): Promise<unknown> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of (body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += part.length
    if (bytes > maxBytes) throw new Error(`what it says is longer than ${maxBytes} bytes; is it a recorder?`)
    parts.push(part)
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString('utf8')) as unknown
  } catch {
    return undefined
  }
}

/** Returns the message of an error's cause, because fetch puts the useful message there. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  return cause instanceof Error && cause.message !== '' ? cause.message : error.message
}
