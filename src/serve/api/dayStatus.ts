import { type Interval, intervalMs } from '../../market/candle.js'
import { dayMs, type TimeMs } from '../../market/values.js'
import type { SeriesDay } from '../../ledger/read/coverage.js'

export type DayStatus = 'none' | 'complete' | 'partial' | 'lost' | 'empty'

/** Allowed lag of today's proven coverage, milliseconds. Candles need time to close; quiet instruments, to trade. */
const lagMs = 10 * 60_000

/** One word for a day of a series. Of today only what has passed is asked for. */
export function dayStatus(day: SeriesDay, interval: Interval | null, now: TimeMs): DayStatus {
  if (day.lostMs > 0) return 'lost'
  if (day.coveredMs <= 0) return day.openGapMs > 0 ? 'partial' : 'none'
  const isToday = day.day + dayMs > now
  const expectedMs = isToday ? now - day.day - lagMs - (interval === null ? 0 : intervalMs[interval]) : dayMs
  if (day.openGapMs > 0 || day.coveredMs < expectedMs) return 'partial'
  return day.hasRows ? 'complete' : 'empty'
}
