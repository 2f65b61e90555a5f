import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import type { Grid } from '../market/candleGrid.js'
import { type CandleOperation, maxAttempts, pageCandles, type PageRequest, retryDelayMs } from './pageRequest.js'
import type { Ask } from './reach.js'

/** `unknown`: the service gave no candle on either side, so that its silence means nothing. */
export type Emptiness = 'empty' | 'candles-below' | 'unknown'

export interface SilentRange {
  readonly range: TimeRange
  /** How far down to look. */
  readonly floor: TimeMs
  readonly grid: Grid
  readonly sleep: (ms: number) => Promise<void>
  /** Opening time of the oldest candle that `candles` is known to reach. */
  readonly reachedTo: TimeMs
  /** Where `candles` is known not to reach: what opens before. */
  readonly beyondTo: TimeMs
}

/**
 * Tells whether a range that stays silent lies before the beginning of its series. An empty page proves nothing, so two
 * things must hold: the pages from its end down to the floor are empty, those of `candles`, too, as far as that may reach, for
 * `history-candles` need not have what is recent; and a page across its upper end shows the candle that follows it, and none
 * before.
 */
export async function confirmEmpty(ask: Ask, silent: SilentRange): Promise<Emptiness> {
  const { range, floor, grid } = silent
  const pageMs = pageLength('history-candles', grid.lengthMs)
  // Whoever asked may want less than there is: candles below the floor make a gap of what would else be the beginning.
  const lowest = floor - pageMs
  const recent = longWindows(range.to, Math.max(lowest, silent.beyondTo), pageLength('candles', grid.lengthMs))
  const older = [...windowsFrom(range.to, floor, pageMs), { from: lowest, to: floor }]
  for (const page of [...questions('candles', recent), ...questions('history-candles', older)]) {
    // An operation whose end is inclusive gives the candle above, too.
    const openTimes = await askPatiently(ask, page, silent.sleep)
    if (openTimes.some((time) => time < range.to)) return 'candles-below'
  }
  const operation: CandleOperation = range.to >= silent.reachedTo ? 'candles' : 'history-candles'
  // Few candles above the end, so that even a page that is shorter than it should be has room for those below.
  const above = 2
  const below = pageCandles('history-candles', grid.lengthMs) - above - 1
  const across = { from: range.to - below * grid.lengthMs, to: range.to + above * grid.lengthMs }
  for (const way of new Set<CandleOperation>([operation, 'history-candles'])) {
    const openTimes = await askPatiently(ask, { operation: way, window: across }, silent.sleep)
    const inWindow = openTimes.filter((time) => time >= across.from && time < across.to)
    if (inWindow.some((time) => time < range.to)) return 'candles-below'
    if (inWindow.includes(range.to)) return 'empty'
  }
  return 'unknown'
}

/**
 * Looks for a candle below the upper end of a range of a series of which none is known yet: by ever longer questions as far as
 * `candles` is known to reach, and page by page below. One page may be silent and the next one not, where a service counts the
 * places of a page and not its candles, so the first time all pages are looked at, as far as that can be done; when that was in
 * vain before, pages at doubling distances. That nothing is found proves nothing.
 */
export async function findsCandle(
  ask: Ask,
  silent: SilentRange & { readonly isAskedBefore: boolean },
): Promise<boolean> {
  const { range, floor, grid, sleep, reachedTo, isAskedBefore } = silent
  const { lengthMs } = grid
  const reachedMs = Math.max(0, Math.floor((range.to - reachedTo) / lengthMs) * lengthMs)
  const split = Math.max(floor, range.to - reachedMs)
  const below = windowsFrom(split, floor, pageLength('history-candles', lengthMs), isAskedBefore)
  const recent = longWindows(range.to, split, pageLength('candles', lengthMs))
  const pages = [...questions('candles', recent), ...questions('history-candles', below)]
  for (let attempt = 1; attempt <= (isAskedBefore ? 1 : maxAttempts); attempt++) {
    if (attempt > 1) await sleep(retryDelayMs * (attempt - 1))
    for (const page of pages) if ((await ask(page)).length > 0) return true
  }
  return false
}

function questions(operation: CandleOperation, windows: readonly TimeRange[]): PageRequest[] {
  return windows.map((window) => ({ operation, window }))
}

/** All of the time between two times, in windows of doubling length. */
function longWindows(top: TimeMs, floor: TimeMs, pageMs: number): TimeRange[] {
  const windows: TimeRange[] = []
  for (let [to, lengthMs] = [top, pageMs]; to > floor; to -= lengthMs, lengthMs *= 2) {
    windows.push({ from: Math.max(floor, to - lengthMs), to })
  }
  return windows
}

/** So many pages are all looked at; of more than that, a sample. */
const maxPages = 64

/** Whether there are more pages between two times than are looked at. */
export function isSampled(top: TimeMs, floor: TimeMs, lengthMs: number): boolean {
  return top - floor > maxPages * pageLength('history-candles', lengthMs)
}

/** One candle less than a page holds: it has room for one too many at its end, should that be inclusive. */
function pageLength(operation: CandleOperation, lengthMs: number): number {
  return Math.max(1, pageCandles(operation, lengthMs) - 1) * lengthMs
}

/** Every page down to the floor; as a sample, or when they are too many, pages each four times as far away as the one before, and the last one. */
function windowsFrom(top: TimeMs, floor: TimeMs, pageMs: number, asSample = false): TimeRange[] {
  const isSample = asSample || top - floor > maxPages * pageMs
  const windows: TimeRange[] = []
  for (let distance = 0; top - distance > floor; distance = isSample ? distance * 4 + pageMs : distance + pageMs) {
    windows.push({ from: Math.max(floor, top - distance - pageMs), to: top - distance })
  }
  if (isSample && top > floor) windows.push({ from: floor, to: floor + pageMs })
  return windows
}

/** Some responses are empty at first and right when asked again. */
export async function askPatiently(
  ask: Ask,
  request: PageRequest,
  sleep: SilentRange['sleep'],
): Promise<readonly TimeMs[]> {
  for (let attempt = 1; ; attempt++) {
    const openTimes = await ask(request)
    if (openTimes.length > 0 || attempt === maxAttempts) return openTimes
    await sleep(retryDelayMs * attempt)
  }
}
