import cron, { setLogger } from 'node-cron'
import type { Logger } from '../../runtime/logger.js'

/** Brings what the library has to say, such as that the process was too busy for a schedule, to our log. */
export function routeCronLog(logger: Logger): void {
  const text = (message: string | Error) => `schedule: ${message instanceof Error ? message.message : message}`
  setLogger({
    info: (message) => logger.info(text(message)),
    warn: (message) => logger.warn(text(message)),
    error: (message) => logger.error(text(message)),
    debug: (message) => logger.debug(text(message)),
  })
}

/** Calls `run` at each time of a six-field cron expression, in UTC. Returns what ends it. */
export function onSchedule(expression: string, run: () => void): () => void {
  const task = cron.schedule(expression, run, { timezone: 'UTC' })
  return () => {
    void task.destroy()
  }
}
