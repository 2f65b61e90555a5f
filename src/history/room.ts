import { candlesIn } from '../market/candleGrid.js'
import { intervalMs } from '../market/candle.js'
import type { CandleSlice } from '../ledger/history/candleSlices.js'
import type { CandleOperation } from './pageRequest.js'

/** Pages that are wanted and not stored yet, of each operation. */
export type PagesWanted = Record<CandleOperation, number>

/** A slice in hand and what it asks for at the moment. */
export interface RunningSlice {
  readonly slice: Pick<CandleSlice, 'series' | 'ranges'>
  readonly pages: Readonly<PagesWanted>
}

/** Enough that a slice alone keeps the limit busy when responses take their time. */
export const maxPagesOfSlice = 16
/** With pages wanted for so long the limit is kept busy: more slices would leave less for other workers at the end. */
const busySeconds = 2
const maxBusyPages = 24
const maxSlices = 16
/**
 * The live streams ask for candles, too, for most of each minute: so long slices of which `candles` has the newest part do not get
 * on. Beside so many of them, others are taken that ask `history-candles`, which nobody else does.
 */
const recentSlicesBeside = 6

/**
 * Whether another slice would find something to do.
 *
 * @param historyLimit requests a second that `history-candles` allows
 */
export function hasRoom(running: Iterable<RunningSlice>, historyLimit: number): boolean {
  const busyPages = Math.min(maxBusyPages, Math.ceil(historyLimit * busySeconds))
  let slices = 0
  let recentSlices = 0
  let expected = 0
  let wantedPages = 0
  for (const { slice, pages } of running) {
    slices++
    if (pages.candles > 0 && pages['history-candles'] === 0) {
      recentSlices++
      continue
    }
    // One that has just begun asks for few pages yet, but for more in a moment.
    const candles = candlesIn({ lengthMs: intervalMs[slice.series.interval] }, slice.ranges)
    expected += Math.min(maxPagesOfSlice, Math.ceil(candles / 100))
    wantedPages += pages['history-candles']
  }
  return slices < maxSlices && recentSlices < recentSlicesBeside && Math.max(expected, wantedPages) < busyPages
}
