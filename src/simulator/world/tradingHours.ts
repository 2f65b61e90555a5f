import { hourMs, type TimeMs } from '../../market/values.js'
import type { FillProcess } from './fillProcess.js'
import { runMs } from './runs.js'

const runsPerHour = hourMs / runMs

/** Hours of UTC in which stocks are traded, Monday to Friday, before and after the exchange's own hours too. */
const opensAt = 8
const closesAt = 24
const perDay = closesAt - opensAt
const perWeek = 5 * perDay

/** Returns the number of trading hours from the Monday before the epoch to `hour`, which counts from the epoch. */
function tradingHour(hour: number): number {
  const day = Math.floor(hour / 24)
  const week = Math.floor((day + 3) / 7)
  const weekday = day + 3 - week * 7
  if (weekday >= 5) return week * perWeek + perWeek
  const hourOfDay = hour - day * 24
  return week * perWeek + weekday * perDay + Math.min(perDay, Math.max(0, hourOfDay - opensAt))
}

function isTradingHour(hour: number): boolean {
  const day = Math.floor(hour / 24)
  const hourOfDay = hour - day * 24
  return (day + 3) % 7 < 5 && hourOfDay >= opensAt && hourOfDay < closesAt
}

/** The hour of the clock in which a trading hour lies. */
function clockHour(trading: number): number {
  const week = Math.floor(trading / perWeek)
  const rest = trading - week * perWeek
  const weekday = Math.floor(rest / perDay)
  return (week * 7 + weekday - 3) * 24 + opensAt + (rest - weekday * perDay)
}

/** Moves the fills of a process into trading hours. Nights and weekends then have no fills. */
export function inTradingHours(process: FillProcess): FillProcess {
  const tradingTime = (at: TimeMs): number => {
    const hour = Math.floor(at / hourMs)
    return tradingHour(hour) * hourMs + (isTradingHour(hour) ? at - hour * hourMs : 0)
  }
  return {
    ...process,
    countBefore: (at) => process.countBefore(tradingTime(at)),
    timeOf(index) {
      const at = process.timeOf(index)
      const trading = Math.floor(at / hourMs)
      return clockHour(trading) * hourMs + (at - trading * hourMs)
    },
    eachRun(hour, from, to, visit) {
      if (!isTradingHour(hour)) return
      const trading = tradingHour(hour)
      const moved = (hour - trading) * runsPerHour
      process.eachRun(trading, from, to, (run, first, count) => visit(run + moved, first, count))
    },
  }
}
