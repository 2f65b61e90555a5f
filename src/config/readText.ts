import { closeSync, openSync, readSync } from 'node:fs'
import { ConfigError } from './configError.js'

/**
 * Of a file, in bytes: every symbol of the market by name on every stream takes less. It also is what a device or a log
 * given by mistake is read up to.
 */
export const maxFileBytes = 524_288

/** The text of a file that the configuration names. Throws a `ConfigError` with what to do. */
export function readText(file: string, advice: string): string {
  let text: string | undefined
  try {
    text = readUpTo(file, maxFileBytes)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const why =
      code === 'ENOENT' ? 'there is no such file' : code === 'EACCES' ? 'no permission to read it' : String(code)
    throw new ConfigError([`${file}: ${why}; ${advice}`], { cause: error })
  }
  if (text === undefined) throw new ConfigError([`${file}: it is larger than ${maxFileBytes} bytes; ${advice}`])
  return text
}

/** Undefined when there is more. */
function readUpTo(file: string, maxBytes: number): string | undefined {
  const descriptor = openSync(file, 'r')
  try {
    const bytes = Buffer.alloc(maxBytes + 1)
    let length = 0
    // A pipe gives it in pieces.
    for (let read = -1; read !== 0 && length <= maxBytes; length += read)
      read = readSync(descriptor, bytes, length, bytes.length - length, null)
    return length > maxBytes ? undefined : bytes.toString('utf8', 0, length)
  } finally {
    closeSync(descriptor)
  }
}
