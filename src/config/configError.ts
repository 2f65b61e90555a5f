import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/** Largest number of lines in one error. More problems mean a wrong file, or can wait until these are corrected. */
const maxProblems = 50

/** A configuration that cannot be used. `problems` are complete lines, each saying what to do; `message` joins them. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly problems: readonly string[]

  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(problems.join('\n'), options)
    this.problems = problems
  }
}

/** Describes the first mistakes, and says how many more there are. Describing a mistake takes time. */
export function problemsOf<Mistake>(
  mistakes: readonly Mistake[],
  describe: (mistake: Mistake) => string,
): readonly string[] {
  const problems = mistakes.slice(0, maxProblems).map((mistake) => describe(mistake))
  const left = mistakes.length - problems.length
  return left === 0 ? problems : [...problems, `and ${left} more problems; correct these first`]
}

/**
 * Largest size of a file in bytes. A file that names every symbol of the market on every stream is smaller. The limit
 * also ends the reading of a log that was given by mistake.
 */
const maxFileBytes = 524_288

/** Name of a file that stands for standard input. */
export const standardInput = '-'

/** Reads a file that the configuration names, or standard input. Throws a `ConfigError` about `name` with advice. */
export function readText(file: string, advice: string, name = file): string {
  let text: string | undefined
  try {
    text = readUpTo(file, maxFileBytes)
  } catch (error) {
    throw unreadable(name, error, advice)
  }
  if (text === undefined) throw new ConfigError([`${name}: it is larger than ${maxFileBytes} bytes; ${advice}`])
  return text
}

/** Returns an error that says why a file that the configuration names cannot be read. */
function unreadable(name: string, error: unknown, advice: string): ConfigError {
  const { code, message } = error as NodeJS.ErrnoException
  const why =
    code === 'ENOENT' ? 'there is no such file' : code === 'EACCES' ? 'no permission to read it' : (code ?? message)
  return new ConfigError([`${name}: ${why}; ${advice}`])
}

/** Reads a file; undefined if it is larger than `maxBytes`. Throws for a pipe or a device, which might never end. */
function readUpTo(file: string, maxBytes: number): string | undefined {
  // Opening a pipe would wait for its writer.
  const descriptor = file === standardInput ? 0 : openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    if (descriptor !== 0 && !fstatSync(descriptor).isFile()) throw new Error('it is no regular file')
    const bytes = Buffer.alloc(maxBytes + 1)
    let length = 0
    // Standard input may return its content in pieces.
    for (let read = -1; read !== 0 && length <= maxBytes; length += read)
      read = readSync(descriptor, bytes, length, bytes.length - length, null)
    return length > maxBytes ? undefined : bytes.toString('utf8', 0, length)
  } finally {
    closeSync(descriptor)
  }
}
