import { createRequire } from 'node:module'
import { type Logger, type LoggerOptions, pino } from 'pino'
import type { PinoPretty } from 'pino-pretty'
import type { LogLevel } from './logLevel.js'
import { printable } from './printable.js'

export type { Logger } from 'pino'

/** Readable lines on a terminal, JSON lines otherwise; both on standard error, so that standard output stays data. */
export function createLogger(level: LogLevel): Logger {
  const options: LoggerOptions = {
    level,
    redact: ['url', 'password', '*.password', '*.url'],
    hooks: {
      // Symbols and messages of others must not command the terminal of whoever reads the log.
      logMethod(given, method) {
        const shown = given.map((one: unknown) => (typeof one === 'string' ? printable(one) : one))
        method.apply(this, shown as typeof given)
      },
    },
  }
  return pino(options, process.stderr.isTTY ? prettyStream() : pino.destination(2))
}

/** Only a terminal needs it: it is loaded here, and in no thread of its own, which would take longer to start than most commands run. */
function prettyStream(): PinoPretty.PrettyStream {
  const { build } = createRequire(import.meta.url)('pino-pretty') as typeof PinoPretty
  return build({
    destination: 2,
    sync: true,
    ignore: 'pid,hostname',
    translateTime: 'SYS:HH:MM:ss.l',
    singleLine: true,
  })
}
