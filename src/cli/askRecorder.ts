import { printableValue } from '../runtime/text.js'
import type { Status } from '../serve/api/contract.js'
import { pageUser } from '../serve/security.js'

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
    throw new Error(`no recorder responds at ${url}: ${causeOf(error)}`, { cause: error })
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
