import { createTask, parse as parseCron } from 'node-cron'
import { dayMs, hourMs, largest, secondsPerDay } from '../../market/values.js'
import { type Clock, sleepFor } from '../../runtime/clock.js'

/** A wall clock that is set forward is noticed after this time at the latest. */
const maxSleepMs = 60_000
/** An expression without a match in this time has none: every weekday has been a 29th of February by then. */
const maxDays = 40 * 366

/**
 * Calls `run` at each time of a six-field cron expression, in UTC, by the given clock. Times that were missed because
 * the process was busy are made good by one call. Returns a function that ends this.
 */
export function onSchedule(clock: Clock, expression: string, run: () => void): () => void {
  const nextRun = nextRunOf(expression)
  const stopping = new AbortController()
  const keepRunning = async () => {
    let dueAt = nextRun(clock.now())
    while (dueAt !== null && (await sleepFor(clock, Math.min(dueAt - clock.now(), maxSleepMs), stopping.signal))) {
      if (clock.now() >= dueAt) run()
      // The next time is computed after every sleep, because the clock may have been set.
      dueAt = nextRun(clock.now())
    }
  }
  void keepRunning()
  return () => stopping.abort()
}

/** Returns a function that gives the first match of a cron expression after a moment, in UTC, or null. */
export function nextRunOf(expression: string): <Time extends number>(after: Time) => Time | null {
  const fields = parseCron(expression)
  const { second, minute, hour } = fields
  const matches = isOfEachDay(fields) ? () => true : matcherOf(expression)
  return (after) => {
    let time = (Math.floor(after / 1000) + 1) * 1000
    const until = time + maxDays * dayMs
    while (time < until) {
      const date = new Date(time)
      if (!hour.includes(date.getUTCHours())) time = startOfNext(time, hourMs)
      else if (!minute.includes(date.getUTCMinutes())) time = startOfNext(time, 60_000)
      else if (!second.includes(date.getUTCSeconds())) time += 1000
      else if (matches(time)) return time as typeof after
      else time = startOfNext(time, dayMs)
    }
    return null
  }
}

/** Returns how often a cron expression of six fields runs on a day on which it runs. */
export function runsPerDay(schedule: string): number {
  const { second, minute, hour } = parseCron(schedule)
  return second.length * minute.length * hour.length
}

/** Returns the longest time between two matches of a cron expression; 31 days if it skips days. */
export function longestPauseMs(expression: string): number {
  const fields = parseCron(expression)
  if (!isOfEachDay(fields)) return 31 * dayMs
  const seconds = inOrder(fields.second)
  const times = inOrder(fields.hour).flatMap((hour) =>
    inOrder(fields.minute).flatMap((minute) => seconds.map((second) => hour * 3600 + minute * 60 + second)),
  )
  const first = times[0] ?? 0
  const pauses = times.map((time, i) => (times[i + 1] ?? first + secondsPerDay) - time)
  return largest(pauses) * 1000
}

const inOrder = (field: readonly number[]): number[] => field.toSorted((a, b) => a - b)

/** Returns true if a cron expression matches every day. Fields may repeat a day, or name the last of a month. */
function isOfEachDay({ dayOfMonth, month, dayOfWeek }: ReturnType<typeof parseCron>): boolean {
  const isEach = (field: readonly (number | string)[], count: number) =>
    new Set(field.filter((entry) => typeof entry === 'number')).size === count
  return isEach(dayOfMonth, 31) && isEach(month, 12) && isEach(dayOfWeek, 7)
}

/**
 * Matches times of expressions that choose days. Other expressions do without the library's calendars, which take 8 MB.
 */
function matcherOf(expression: string): (time: number) => boolean {
  // The task is never started: the library only tells which times match, so that our clock alone decides.
  const task = createTask(expression, () => undefined, { timezone: 'UTC' })
  void task.destroy()
  return (time) => task.match(new Date(time))
}

function startOfNext(time: number, lengthMs: number): number {
  return (Math.floor(time / lengthMs) + 1) * lengthMs
}
