import { type Logger, type LoggerOptions, pino, type TransportSingleOptions } from 'pino'
import { printable } from './printable.js'

export type { Logger } from 'pino'

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/** Readable lines on a terminal, JSON lines otherwise; both on standard error, so that standard output stays data. */
export function createLogger(level: LogLevel): Logger {
  const pretty: TransportSingleOptions = {
    target: 'pino-pretty',
    options: { destination: 2, ignore: 'pid,hostname', translateTime: 'SYS:HH:MM:ss.l', singleLine: true },
  }
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
  return process.stderr.isTTY ? pino({ ...options, transport: pretty }) : pino(options, pino.destination(2))
}
