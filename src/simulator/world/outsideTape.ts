import { dayMs, hourMs, type TimeMs } from '../../market/values.js'
import { mix, unit } from './hash.js'
import type { OutsideTape } from './traits.js'

const opensAtMs = 14.5 * hourMs
const closesAtMs = 21 * hourMs

/**
 * Turnover of the trading day abroad up to `at`, in the quote coin: it rises from the opening to the close and then stays,
 * over nights and weekends, until the next day begins from nothing.
 */
export function outsideTurnover(key: number, tape: OutsideTape, hours: OutsideTape['hours'], at: TimeMs): number {
  const [opens, closes] = hours === 'always' ? [0, dayMs] : [opensAtMs, closesAtMs]
  let day = Math.floor((at - opens) / dayMs)
  if (hours === 'weekdays') while (!isWeekday(day)) day--
  const passed = Math.min(1, (at - day * dayMs - opens) / (closes - opens))
  const ofTheDay = tape.turnoverPerDay * (0.6 + 0.8 * unit(mix(key, day, 0x7a9e)))
  return ofTheDay * passed * (1.2 - 0.6 * passed + 0.4 * passed * passed)
}

function isWeekday(day: number): boolean {
  return (day + 3) % 7 < 5
}
