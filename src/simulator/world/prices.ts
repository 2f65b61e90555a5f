import type { TimeMs } from '../../market/values.js'
import { mix, unit } from './hash.js'

const minutesPerHour = 60
const minutesPerDay = 1_440
/** Time in which the slower noise within an hour changes. It must divide the hour. */
const minutesPerWave = 10
export const minutesPerWeek = 10_080

/** Number of weeks kept in memory. A backfill goes through years, week by week. */
const weeksKept = 128

/** Activity that rises and falls for all instruments at once. */
export interface CommonFactor {
  /** Returns the activity up to each minute of a week, as a share of the week: 10,081 ascending values from 0 to 1. */
  week(week: number): Float64Array
  /** Returns the bias of fills between the halves of a part of a minute: -1 (the first half) to 1 (the second). */
  lean(minute: number, node: number): number
}

/** Openings: minute of the day, factor of the rate in the first minute, minutes to calm down, and if at weekends. */
const openings: readonly (readonly [minute: number, times: number, calmsMinutes: number, onWeekends: boolean])[] = [
  [0, 5, 4, true],
  [8 * 60, 4, 3, true],
  [13 * 60 + 30, 14, 9, false],
  [16 * 60, 3, 2, true],
]

/** Share of the days with a crash, and the smallest and largest factor of the rate in its first minute. */
const crashShare = 0.3
const crashTimes = [12, 30] as const
const crashCalmsMinutes = 5
/** Number of minutes after which an opening or a crash has no effect any more. */
const longestMinutes = 45

/**
 * Creates a path of activity that all instruments share: hours of the day, weekends, openings, crashes, and noise from
 * hours down to seconds. It depends only on the time, so that every process finds the same path.
 */
export function createCommonFactor(seed: number): CommonFactor {
  const key = mix(seed, 0xc0330)
  const weeks = new Map<number, Float64Array>()
  let last: { readonly week: number; readonly path: Float64Array } | undefined
  return {
    week(week) {
      if (last?.week === week) return last.path
      let path = weeks.get(week)
      if (path !== undefined) {
        last = { week, path }
        return path
      }
      path = pathOf(key, week)
      weeks.set(week, path)
      if (weeks.size > weeksKept) {
        for (const oldest of weeks.keys()) {
          weeks.delete(oldest)
          break
        }
      }
      return path
    },
    lean: (minute, node) => 2 * unit(mix(key, minute, node)) - 1,
  }
}

function pathOf(key: number, week: number): Float64Array {
  const first = week * minutesPerWeek
  const rates = new Float64Array(minutesPerWeek)
  for (let at = 0; at < minutesPerWeek; at += minutesPerHour) addCalmHour(key, (first + at) / minutesPerHour, rates, at)
  const firstDay = first / minutesPerDay
  for (let day = -1; day < 7; day++) {
    for (const { minute, times, calmsMinutes } of eventsOf(key, firstDay + day)) {
      for (let after = 0; after < longestMinutes; after++) {
        const at = day * minutesPerDay + minute + after
        if (at >= 0 && at < minutesPerWeek)
          rates[at] = (rates[at] ?? 0) * (1 + (times - 1) * Math.exp(-after / calmsMinutes))
      }
    }
  }
  const path = new Float64Array(minutesPerWeek + 1)
  for (let i = 0; i < minutesPerWeek; i++) path[i + 1] = (path[i] ?? 0) + (rates[i] ?? 0)
  const total = path[minutesPerWeek] ?? 1
  return path.map((sum) => sum / total)
}

interface MarketEvent {
  readonly minute: number
  readonly times: number
  readonly calmsMinutes: number
}

function eventsOf(key: number, day: number): MarketEvent[] {
  const events = openings
    .filter(([, , , onWeekends]) => onWeekends || !isWeekend(day))
    .map(([minute, times, calmsMinutes]) => ({
      minute,
      times: 1 + (times - 1) * (0.7 + 0.6 * unit(mix(key, day, minute))),
      calmsMinutes,
    }))
  const chance = unit(mix(key, day, 0xc4a5))
  if (chance >= crashShare) return events
  const minute = mix(key, day, 0xc4a6) % minutesPerDay
  const times = crashTimes[0] + (crashTimes[1] - crashTimes[0]) * (chance / crashShare)
  return [...events, { minute, times, calmsMinutes: crashCalmsMinutes }]
}

/** Returns true for Saturdays and Sundays. Day 0 of the epoch was a Thursday. */
function isWeekend(day: number): boolean {
  const weekday = (day + 4) % 7
  return weekday === 0 || weekday === 6
}

/** Sets the activity of each minute of an hour, without openings and crashes. */
function addCalmHour(key: number, hour: number, rates: Float64Array, at: number): void {
  const day = Math.floor(hour / 24)
  // The market is busiest in the afternoon (UTC) and quietest before dawn.
  const daily = 0.35 * Math.cos(((hour % 24) - 15) * (Math.PI / 12))
  const level = daily + 0.35 * wander(key, hour / 7, 1) + (isWeekend(day) ? Math.log(0.6) : 0)
  const first = hour * minutesPerHour
  for (let i = 0; i < minutesPerHour; i += minutesPerWave) {
    const left = 2 * unit(mix(key, (first + i) / minutesPerWave, 2)) - 1
    const right = 2 * unit(mix(key, (first + i) / minutesPerWave + 1, 2)) - 1
    for (let step = 0; step < minutesPerWave; step++) {
      const x = step / minutesPerWave
      const wave = left + (right - left) * x * x * (3 - 2 * x)
      const own = 2 * unit(mix(key, first + i + step, 3)) - 1
      rates[at + i + step] = Math.exp(level + 0.5 * wave + 0.65 * own)
    }
  }
}

/** Returns noise between -1 and 1 that changes over about one step of `position`. */
function wander(key: number, position: number, what: number): number {
  const cell = Math.floor(position)
  const left = unit(mix(key, cell, what)) * 2 - 1
  const right = unit(mix(key, cell + 1, what)) * 2 - 1
  const x = position - cell
  return left + (right - left) * x * x * (3 - 2 * x)
}

/** Periods from seconds to months, and the largest move of the price in each, as a share of the base price. */
const octaves: readonly (readonly [periodMs: number, amplitude: number])[] = [
  [11_000, 0.0004],
  [97_000, 0.0012],
  [900_000, 0.004],
  [10_800_000, 0.012],
  [111_600_000, 0.03],
  [1_123_200_000, 0.08],
  [12_096_000_000, 0.2],
]

/** The price of an instrument relative to its base price (within 0.67 and 1.33) at any moment. */
export type PricePath = (at: TimeMs) => number

/**
 * Creates a path of smooth value noise, summed over the octaves. Each moment costs the same, however far away it is.
 * The last cell of each octave is remembered, because moments are usually requested in order.
 */
export function createPricePath(key: number): PricePath {
  const cells = octaves.map(([periodMs, amplitude], octave) => ({
    periodMs,
    amplitude,
    key: mix(key, octave, 0x0c7a),
    index: Number.NaN,
    left: 0,
    right: 0,
  }))
  return (at) => {
    let sum = 1
    for (const cell of cells) {
      const position = at / cell.periodMs
      const index = Math.floor(position)
      if (index !== cell.index) {
        cell.index = index
        cell.left = unit(mix(cell.key, index)) * 2 - 1
        cell.right = unit(mix(cell.key, index + 1)) * 2 - 1
      }
      const x = position - index
      sum += cell.amplitude * (cell.left + (cell.right - cell.left) * x * x * (3 - 2 * x))
    }
    return sum
  }
}
