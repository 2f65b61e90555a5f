import { createRequire } from 'node:module'
import { type Logger, type LoggerOptions, pino, stdTimeFunctions, symbols } from 'pino'
import type { PinoPretty } from 'pino-pretty'
import { type LogDestination, openLogDestination } from './logDestination.js'
import { printable } from './text.js'

export type { Logger } from 'pino'

/** Readable lines on a terminal, JSON lines otherwise; both on standard error, so that standard output stays data. */
export function createLogger(level: LogLevel): Logger {
  const options: LoggerOptions = {
    level,
    // Times that a person can read and a program can sort, and levels by name.
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: ['url', 'password', '*.password', '*.url'],
    hooks: {
      // Symbols and messages of others must not command the terminal of whoever reads the log.
      logMethod(given, method) {
        const shown = given.map((one: unknown) => (typeof one === 'string' ? printable(one) : one))
        method.apply(this, shown as typeof given)
      },
    },
  }
  const destination = openLogDestination((lost, reason) =>
    logger.warn(`${lost} ${lost === 1 ? 'line' : 'lines'} of this log could not be written: ${reason}`),
  )
  const logger = pino(options, process.stderr.isTTY ? prettyLines(destination) : destination)
  return logger
}

/** Lines that a logger of `createLogger` could not write since the start. */
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
