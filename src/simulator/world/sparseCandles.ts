import type { TimeMs } from '../../market/values.js'
import { type Bar, type CandleRow, candleRow, runAdder } from './candles.js'
import { nextOpenTime, openTimeOf, type ServedInterval } from './intervals.js'
import { eachRunOf, type Market } from './market.js'
import { runMs } from './evenFills.js'

/** Returns the candles with trades that open in the half-open range, ascending. Candles without trades are left out. */
export function tradedCandles(
  market: Market,
  interval: ServedInterval,
  midnightMs: number,
  from: TimeMs,
  to: TimeMs,
  at: TimeMs,
): CandleRow[] {
  const rows: CandleRow[] = []
  const opens = openTimeOf(from, interval, midnightMs)
  const first = opens < from ? nextOpenTime(opens, interval, midnightMs) : opens
  const lastOpens = openTimeOf(to - 1, interval, midnightMs)
  if (lastOpens < first) return rows
  const [begin, end] = market.fillRange(first, Math.min(nextOpenTime(lastOpens, interval, midnightMs), at + 1))
  const add = runAdder(market, at)
  let openTime = first
  let closeTime = first
  let bar: Bar | undefined
  const finish = (): void => {
    if (bar !== undefined) rows.push(candleRow(market, 'market', openTime, bar))
    bar = undefined
  }
  eachRunOf(market, begin, end, (run, firstOfRun, count) => {
    const time = run * runMs
    if (time >= closeTime) {
      finish()
      openTime = openTimeOf(time, interval, midnightMs)
      closeTime = nextOpenTime(openTime, interval, midnightMs)
    }
    bar = add(bar, run, firstOfRun, count)
  })
  finish()
  return rows
}

/** Returns the opening time of the earliest of the `limit` most recent candles with trades in a half-open range. */
export function earliestTraded(
  market: Market,
  interval: ServedInterval,
  midnightMs: number,
  from: TimeMs,
  to: TimeMs,
  at: TimeMs,
  limit: number,
): TimeMs {
  const lastClose = nextOpenTime(openTimeOf(to - 1, interval, midnightMs), interval, midnightMs)
  let before = Math.min(lastClose, at + 1)
  let earliest = to
  for (let count = 0; count < limit; count++) {
    const [begin, end] = market.fillRange(0, before)
    if (begin === end) return earliest
    const openTime = openTimeOf(market.fills.timeOf(end - 1), interval, midnightMs)
    if (openTime < from) return earliest
    earliest = openTime
    before = openTime
  }
  return earliest
}
