import { type Logger, pino, type TransportSingleOptions } from 'pino'

export type { Logger } from 'pino'

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/** Readable lines on a terminal, JSON lines otherwise; both on standard error, so that standard output stays data. */
export function createLogger(level: LogLevel): Logger {
  const pretty: TransportSingleOptions = {
    target: 'pino-pretty',
    options: { destination: 2, ignore: 'pid,hostname', translateTime: 'SYS:HH:MM:ss.l', singleLine: true },
  }
  const options = { level, redact: ['url', 'password', '*.password', '*.url'] }
  return process.stderr.isTTY ? pino({ ...options, transport: pretty }) : pino(options, pino.destination(2))
}
