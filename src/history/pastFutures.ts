import type { Kysely } from 'kysely'
import {
  fundingPageRows,
  type FundingRate,
  fundingReachMs,
  type FutureKey,
  isFuture,
  longestFundingMs,
} from '../market/funding.js'
import type { InstrumentKey } from '../market/category.js'
import { subtract } from '../market/timeRange.js'
import { dayMs, type TimeMs } from '../market/values.js'
import { backoffMs, type Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { inTransaction } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { instrumentStream } from '../db/series.js'
import { loseGaps, missingOfStream } from '../ledger/events.js'
import { storeFundingRates } from '../ledger/fundingRates.js'
import { insertWants } from '../ledger/wants.js'
import type { EventHistory } from './fetchEvents.js'
import { type Routine, startRoutine } from './routine.js'

export function fundingHistory(db: Kysely<Database>): EventHistory<FundingRate> {
  return {
    stream: 'funding_rates',
    operationOf: () => 'history-fund-rate',
    pageRows: fundingPageRows,
    maxSpanMs: null,
    reachMs: fundingReachMs,
    numbered: { textOf: ({ ts }) => String(ts), silentBelowMs: longestFundingMs },
    ask: (client, { series, page }, request) =>
      client.fundingRates({ ...futureOf(series), cursor: page, limit: fundingPageRows }, request),
    timeOf: ({ ts }) => ts,
    async store({ series, covered, wanted, rows }) {
      const { inserted, proven } = await inTransaction(db, (trx) =>
        storeFundingRates(trx, futureOf(series), rows, covered),
      )
      return { inserted, refused: subtract(wanted, proven) }
    },
  }
}

function futureOf({ category, symbol }: InstrumentKey): FutureKey {
  const key = { category, symbol }
  if (isFuture(key)) return key
  throw new RangeError(`${category} ${symbol} is no future`)
}

export interface PastOfFuturesOptions {
  readonly db: Kysely<Database>
  /** Returns true if only this recorder requests the instrument. */
  readonly isOwn: (instrument: InstrumentKey) => boolean
  /** The time of which settled rates are kept, milliseconds; null: for ever. */
  readonly keptMs: number | null
  readonly clock: Clock
  readonly logger: Logger
  /** How often it looks. Default: once a minute. */
  readonly everyMs?: number
}

/** The wait before what was not found is wanted again. */
const again = { minMs: 60_000, maxMs: dayMs, factor: 10 }

/**
 * Has settled rates fetched that are missing: those from before an instrument was recorded at first, and those that the
 * recorder missed for so long that no live response has them.
 */
export function startFundingRepair(options: PastOfFuturesOptions): Routine {
  return startRoutine('repair of funding rates', options, options.everyMs ?? 60_000, () =>
    wantMissing(options, options.clock.now()),
  )
}

async function wantMissing({ db, isOwn, keptMs }: PastOfFuturesOptions, now: TimeMs): Promise<void> {
  const stream = 'funding_rates'
  await loseGaps(db, stream, now - fundingReachMs)
  const found = await missingOfStream(db, stream, now - Math.min(fundingReachMs, keptMs ?? Infinity))
  const isDue = ({ attempts, attemptedAt }: (typeof found)[number]) =>
    attempts === 0 || (attemptedAt !== null && now >= attemptedAt + backoffMs(attempts, again))
  const what = { kind: 'repair', again: false, isUrgent: false, hasOpenBeginning: false } as const
  await insertWants(
    db,
    found
      .filter((one) => isOwn(one) && isDue(one))
      .map((one) => ({
        ...what,
        series: instrumentStream(stream, one),
        ranges: one.missing,
        floor: one.missing[0]?.from ?? 0,
      })),
  )
}
