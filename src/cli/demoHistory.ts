import { dayMs } from '../market/values.js'
import type { Recorder } from '../app.js'
import { planSeries, wantsOf } from '../history/plan.js'
import { resolveRequest } from '../history/request.js'
import { systemClock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { insertWants } from '../ledger/wants.js'
import { listInstruments } from '../ledger/read/instruments.js'
import { messageOf } from '../runtime/messageOf.js'

const historyMs = 3 * dayMs
const request = {
  categories: ['SPOT', 'USDT-FUTURES'],
  symbols: ['BTCUSDT', 'ETHUSDT', 'SOLUSDT'],
  types: ['market'],
  intervals: ['1m'],
} as const
const pollMs = 250

/**
 * Wants some days of candles of a few instruments as soon as the instruments are known, so that a page that has just been opened
 * has something to show; the recorder fetches them. Never rejects: without them it is only less to see.
 */
export async function wantDemoHistory(
  { store }: Recorder,
  settings: { readonly settleMs: number; readonly logger: Logger; readonly signal: AbortSignal },
): Promise<void> {
  const { db } = store.database
  const { settleMs, logger, signal } = settings
  try {
    let instruments = await listInstruments(db)
    while (!request.categories.every((wanted) => instruments.some(({ category }) => category === wanted))) {
      await systemClock.sleep(pollMs, signal)
      instruments = await listInstruments(db)
    }
    const now = systemClock.now()
    const { series } = resolveRequest({ ...request, from: now - historyMs, to: now }, instruments, now, settleMs)
    const planned = await planSeries(db, series, { again: false })
    await insertWants(db, wantsOf(planned, { kind: 'backfill', again: false }))
  } catch (error) {
    if (signal.aborted) return
    logger.warn(`no history is fetched: ${messageOf(error)}`)
  }
}
