import type { Kysely } from 'kysely'
import { type CandleSeries, isSameSeries } from '../market/candle.js'
import { instrumentText, tradedCategories, type TradedCategory } from '../market/category.js'
import { type Fill, fillsPerPage } from '../market/rows.js'
import type { Operation } from '../market/stream.js'
import { union } from '../market/timeRange.js'
import { dayMs, minuteMs, minuteOf, type TimeMs } from '../market/values.js'
import type { Clock } from '../runtime/clock.js'
import {
  explainFills,
  type FillGap,
  fillNeighbours,
  type FillKey,
  type GapPlace,
  type JoinRefusal,
  selectFillGaps,
  storePastFills,
} from '../ledger/pastFills.js'
import { loseGaps, reopenGaps } from '../ledger/events.js'
import { insertWants, type NewWant } from '../ledger/wants.js'
import type { Database } from '../db/schema.js'
import { instrumentStream } from '../db/series.js'
import type { EventHistory } from './fetchEvents.js'
import type { OperationStates } from './reach.js'
import { isDueAgain, repairOf } from './repair.js'
import type { SliceContext } from './sliceWork.js'

export const fillRefusals: Readonly<Record<JoinRefusal | 'unproven' | 'lacking', string>> = {
  'other ids': 'the history of fills names them by other ids than the service does live: it is not used',
  'other values': 'the history of fills gives stored ones another time, price, size or side: it is not used',
  incomplete: 'the history of fills lacks some that are stored: it is not used',
  lacking: 'the candle of the minute counts other fills than their history has, or is still to come',
  unproven: 'no fill shows whether the history of fills has the same ids as the service does live',
}

const fillOperationOf = (category: TradedCategory): Operation =>
  category === 'SPOT' ? 'spot-fills-history' : 'futures-fills-history'

/** How far back the service gives fills. */
export const fillReachMs = 90 * dayMs

export const fillPageRows = 1_000
/** The longest time between the ends of a request. */
export const fillSpanMs = 7 * dayMs
/** The service's history may be some seconds behind its newest fills. */
const settleMs = 20_000

/** Makes the history of fills, for futures and spot. A page is believed if it shows the stored fills of its time. */
export function fillHistory(db: Kysely<Database>, series: SliceContext['series']): EventHistory<Fill> {
  return {
    stream: 'fills',
    operationOf: fillOperationOf,
    pageRows: fillPageRows,
    maxSpanMs: fillSpanMs,
    reachMs: fillReachMs,
    numbered: null,
    minutesLateMs: settleMs,
    ask(client, { series: { category, symbol }, window: { from, to } }, request) {
      // One millisecond more is requested on both sides, because the ends may be exclusive.
      return client.pastFills({ category, symbol, limit: fillPageRows, startTime: from - 1, endTime: to }, request)
    },
    timeOf: ({ ts }) => ts,
    neighbours: (series, range) => fillNeighbours(db, series, range),
    async whyUnproven({ client, ask, request }, { category, symbol }) {
      const live = await client.fills({ category, symbol, limit: fillsPerPage }, request)
      const past = await ask(() => client.pastFills({ category, symbol, limit: fillPageRows }, request))
      const times = new Map(past.rows.map(({ execId, ts }) => [execId, ts]))
      return live.rows.some(({ execId, ts }) => times.get(execId) === ts) ? null : fillRefusals.unproven
    },
    async store({ series: key, rows, receivedAt, ...shown }) {
      const { category, symbol } = key
      const minutes: CandleSeries = { category, symbol, type: 'market', interval: '1m' }
      const hasCandles = series().some((candles) => isSameSeries(candles, minutes))
      const page = { ...shown, fills: rows, at: receivedAt, hasCandles }
      const { inserted, refusal, lacking, cut } = await storePastFills(db, key, page)
      for (const minute of lacking) await explainFills(db, key, minute, fillRefusals.lacking)
      if (refusal === null) return { inserted, refused: lacking, cut }
      return { inserted, refusal: fillRefusals[refusal], isForAll: refusal === 'other ids' }
    },
    explain: (series, range, reason) => explainFills(db, series, range, reason),
  }
}

export interface FillRepairOptions {
  readonly db: Kysely<Database>
  /** Returns true if only this recorder requests the fills of an instrument. */
  readonly isOwn: (instrument: FillKey) => boolean
  readonly states: OperationStates
  readonly clock: Clock
}

/** The largest number of gaps that one look goes through. */
const gapsPerLook = 500
/** The place before the newest gap. */
const newest: GapPlace = { notedAt: Date.UTC(9999, 0), id: Number.MAX_SAFE_INTEGER }

/** Adds wants for open gaps in fills, and marks gaps as lost that the service's history cannot fill any more. */
export class FillRepair {
  readonly #options: FillRepairOptions
  #place: GapPlace | null = null
  /** Operations that the service turned out to have. Gaps that were lost without them are open again. */
  readonly #found = new Set<Operation>()

  constructor(options: FillRepairOptions) {
    this.#options = options
  }

  /** Goes through the next gaps, the newest first, and begins again after the oldest. */
  look = async (): Promise<void> => {
    const { db, clock } = this.#options
    const now = clock.now()
    const reachedSince = now - fillReachMs
    // A gap is lost for good once the service's history does not reach it any more.
    await loseGaps(db, 'fills', reachedSince)
    const gaps: FillGap[] = []
    for (const operation of ['spot-fills-history', 'futures-fills-history'] as const) {
      gaps.push(...(await this.#followOperation(operation, now, reachedSince)))
    }
    gaps.push(...(await this.#nextGaps(now, reachedSince)))
    const wants = new Map<string, NewWant>()
    for (const gap of gaps) {
      const known = wants.get(instrumentText(gap))?.ranges ?? []
      wants.set(instrumentText(gap), repairOf(instrumentStream('fills', gap), union(known, [gap.range])))
    }
    await insertWants(db, [...wants.values()])
  }

  /**
   * Marks gaps as lost while the service lacks the operation, and opens them again once the service has it. While this
   * is not known, resolves to a lost gap whose request will tell.
   */
  async #followOperation(operation: Operation, now: TimeMs, since: TimeMs): Promise<FillGap[]> {
    const { db, states } = this.#options
    const categories = tradedCategories.filter((category) => fillOperationOf(category) === operation)
    const state = states.stateOf(operation)
    if (state === 'unknown') {
      const lost = await selectFillGaps(db, { state: 'lost', categories, since, before: newest, limit: gapsPerLook })
      return lost.filter((gap) => this.#isDue(gap, now)).slice(0, 1)
    }
    if (state === 'absent') {
      this.#found.delete(operation)
      await loseGaps(db, 'fills', 'infinity', categories)
    } else if (state === 'present' && !this.#found.has(operation)) {
      await reopenGaps(db, 'fills', since, categories)
      this.#found.add(operation)
    }
    return []
  }

  /** Resolves to the next open gaps of this recorder's instruments that are due. */
  async #nextGaps(now: TimeMs, since: TimeMs): Promise<FillGap[]> {
    const { db, states } = this.#options
    const before = this.#place ?? newest
    const gaps = await selectFillGaps(db, {
      state: 'open',
      categories: tradedCategories,
      since,
      before,
      limit: gapsPerLook,
    })
    this.#place = gaps.length < gapsPerLook ? null : (gaps.at(-1) ?? null)
    const rests = ({ category }: FillGap) => states.stateOf(fillOperationOf(category)) === 'resting'
    return gaps.filter((gap) => this.#isDue(gap, now) && !rests(gap))
  }

  #isDue(gap: FillGap, now: TimeMs): boolean {
    return this.#options.isOwn(gap) && isOver(gap, now) && isDueAgain(gap, now)
  }
}

/** Returns true if the last minute of a gap is over, so that the minute has its candle. */
const isOver = ({ range }: FillGap, now: TimeMs) => minuteOf(range.to - 1) + minuteMs <= now - settleMs
