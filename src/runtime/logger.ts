import { fstatSync, write, writeSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Logger, type LoggerOptions, pino, stdTimeFunctions, symbols } from 'pino'
import type { PinoPretty } from 'pino-pretty'
import { counted, printable } from './text.js'

/** Largest number of waiting characters. More are dropped, because logging must not wait for a slow reader. */
const maxWaitingBytes = 1_000_000

interface LogDestination {
  write(line: string): void
  /** Number of lines that could not be written since the start. */
  readonly lostLines: number
}

/**
 * Opens standard error for writes that do not block. Lines are dropped and counted if the disk is full, the pipe is
 * closed or its reader stops. `onRecovered` is called when a line was written again.
 */
function openLogDestination(onRecovered: (lostLines: number, reason: string) => void): LogDestination {
  const deliver = fstatSync(2).isFile() || isDevice() ? fileWriter() : writeStream
  let lostLines = 0
  let lostNow = 0
  let reason = ''
  let waiting: string[] = []
  let waitingBytes = 0
  let isWriting = false
  /** Tries once more to write the waiting lines when the process ends. */
  const writeRest = () => {
    if (waiting.length > 0) tryWriteSync(waiting.join(''))
  }

  function lose(lines: number, why: string): void {
    lostLines += lines
    lostNow += lines
    reason = why
  }

  function deliverNext(): void {
    if (isWriting || waiting.length === 0) return
    const [lines, text] = [waiting.length, waiting.join('')]
    waiting = []
    waitingBytes = 0
    isWriting = true
    if (!process.listeners('exit').includes(writeRest)) process.once('exit', writeRest)
    deliver(text, (error) => {
      isWriting = false
      // Waiting lines go first, so that there is room for the report of lost lines.
      deliverNext()
      if (error != null) lose(lines, error.message)
      else if (lostNow > 0) {
        const lost = lostNow
        lostNow = 0
        onRecovered(lost, reason)
      }
    })
  }

  return {
    write(line) {
      if (waitingBytes + line.length > maxWaitingBytes) return lose(1, 'nothing reads it, or the disk is too slow')
      waiting.push(line)
      waitingBytes += line.length
      deliverNext()
    },
    get lostLines() {
      return lostLines
    },
  }
}

type Deliver = (text: string, done: (error?: Error | null) => void) => void

/** Returns true if stderr is a character device but no terminal, such as /dev/null or /dev/full. */
function isDevice(): boolean {
  return fstatSync(2).isCharacterDevice() && !process.stderr.isTTY
}

/** Writes to a file. A full disk may truncate a line; the next text then begins with a line feed. */
function fileWriter(): Deliver {
  let isTorn = false
  return (text, done) => {
    const bytes = Buffer.from(isTorn ? `\n${text}` : text)
    const writeFrom = (start: number) => {
      write(2, bytes, start, bytes.length - start, null, (error, written) => {
        if (error === null && start + written < bytes.length) return writeFrom(start + written)
        isTorn = error !== null && (isTorn || start > 0)
        done(error)
      })
    }
    writeFrom(0)
  }
}

/** Writes to a pipe or terminal by the stream of Node, which does not wait for a reader. */
function writeStream(text: string, done: (error?: Error | null) => void): void {
  // Without a listener, the error of a reader that has gone would end the process. `done` gets the error too.
  if (process.stderr.listenerCount('error') === 0) process.stderr.on('error', () => undefined)
  process.stderr.write(text, done)
}

function tryWriteSync(text: string): void {
  try {
    writeSync(2, text)
  } catch {
    // The lines are lost. No output is left to report that.
  }
}

export type { Logger } from 'pino'

/** Logs lines on a terminal, and JSON elsewhere. Both go to standard error; standard output has only data. */
export function createLogger(level: LogLevel): Logger {
  const options: LoggerOptions = {
    level,
    // Times that people can read and programs can sort, and levels by name.
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: ['url', 'password', '*.password', '*.url'],
    hooks: {
      // Escapes control characters, because symbols and messages of others must not control the reader's terminal.
      logMethod(given, method) {
        const shown = given.map((one: unknown) => (typeof one === 'string' ? printable(one) : one))
        method.apply(this, shown as typeof given)
      },
    },
  }
  const destination = openLogDestination((lost, reason) =>
    logger.warn(`${counted(lost, 'line')} of this log could not be written: ${reason}`),
  )
  const logger = pino(options, process.stderr.isTTY ? prettyLines(destination) : destination)
  return logger
}

/** Returns how many lines a logger of `createLogger` could not write since the start. */
export function lostLogLines(logger: Logger): number {
  const { [symbols.streamSym]: stream } = logger as { [symbols.streamSym]?: Partial<LogDestination> }
  return stream?.lostLines ?? 0
}

/**
 * Formats log lines for a terminal. The formatter is loaded here, because no other output needs it.
 * A thread of its own would take longer to start than many commands run.
 */
function prettyLines(destination: LogDestination): LogDestination {
  const { prettyFactory } = createRequire(import.meta.url)('pino-pretty') as typeof PinoPretty
  const pretty = prettyFactory({
    colorize: true,
    ignore: 'pid,hostname',
    translateTime: 'SYS:HH:MM:ss.l',
    singleLine: true,
  })
  return {
    write: (line) => destination.write(pretty(line)),
    get lostLines() {
      return destination.lostLines
    },
  }
}

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
type LogLevel = (typeof logLevels)[number]
