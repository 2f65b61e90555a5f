import constants from 'undici/lib/llhttp/constants.js'

// Undici looks up the name of a parser's error by its number, but has only numbers by their names: without this, errors have no code.
for (const [name, number] of Object.entries(constants.ERROR)) constants.ERROR[number] ??= name

const resetCode = 'ECONNRESET'

/**
 * An error of undici as Node's own HTTP has it: with its code and its text, so that it says the same whoever sends the requests.
 * Those of the operating system, of TLS and of DNS are Node's already.
 */
export function asNodeSays(error: Error, hasHead: boolean): Error {
  const { code = '' } = error as NodeJS.ErrnoException
  const as = (nodeCode: string, message: string) =>
    Object.assign(new Error(message, { cause: error }), { code: nodeCode })
  const cutOff = () =>
    as(
      resetCode,
      hasHead ? 'the connection closed before the end of the body' : 'the connection closed without a response',
    )
  // Undici takes no response with status 100 that it has not asked for, and none without a meaning.
  if (code === 'ERR_ASSERTION' || (code === 'UND_ERR_SOCKET' && error.message === 'bad response'))
    return as('HPE_INVALID_STATUS', 'Parse Error: Unexpected status')
  // The latter: what came is at its end, and the parser wanted more.
  if (code === 'UND_ERR_SOCKET' || code === 'HPE_INVALID_EOF_STATE') return cutOff()
  // Undici says so of every error of the parser after a Content-Length.
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH')
    return hasHead ? cutOff() : as('HPE_INVALID_HEADER', 'Parse Error: Invalid headers')
  if (code === 'UND_ERR_HEADERS_OVERFLOW') return as('HPE_HEADER_OVERFLOW', 'Parse Error: Header overflow')
  if (code.startsWith('HPE_')) return as(code, `Parse Error: ${/\((.*)\)$/.exec(error.message)?.[1] ?? error.message}`)
  return error
}
