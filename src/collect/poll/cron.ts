import cron from 'node-cron'

/** Calls `run` at each time of a six-field cron expression, in UTC. Returns what ends it. */
export function onSchedule(expression: string, run: () => void): () => void {
  const task = cron.schedule(expression, run, { timezone: 'UTC' })
  return () => {
    void task.destroy()
  }
}
