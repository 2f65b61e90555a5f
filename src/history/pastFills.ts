import type { Kysely } from 'kysely'
import type { ExchangeClient, Page } from '../exchange/client.js'
import { ExchangeError } from '../exchange/errors.js'
import { instrumentText, type InstrumentKey } from '../market/category.js'
import { type Fill } from '../market/fill.js'
import type { TimeRange } from '../market/timeRange.js'
import { dayMs, type TimeMs } from '../market/values.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import {
  explainFillGap,
  type FillGap,
  fillGaps,
  type GapPlace,
  type JoinOutcome,
  neighboursOf,
  storePastFills,
} from '../ledger/pastFills.js'
import type { Database } from '../db/schema.js'
import { type Routine, startRoutine } from './routine.js'
import { pastFillSource } from './sources.js'

export interface FillRepairOptions {
  readonly db: Kysely<Database>
  readonly client: Pick<ExchangeClient, 'pastFills'>
  /** Returns true if only this recorder requests the fills of an instrument. */
  readonly isOwn: (instrument: InstrumentKey) => boolean
  readonly clock: Clock
  readonly logger: Logger
  /** How often it looks for gaps. Default: every ten seconds. */
  readonly everyMs?: number
  /**
   * How long after it was found a gap is filled. By then the candles of its minutes show whether the history is whole.
   * Default: two minutes.
   */
  readonly settleMs?: number
}

/** Requests a page of past fills between two times. */
export type AskPastFills = (query: { readonly startTime: TimeMs; readonly endTime: TimeMs }) => Promise<PastPage>
type PastPage = Pick<Page<Fill>, 'rows' | 'rejected' | 'rejectedUnkept' | 'surplusRows'>

/** The largest number of gaps that one look goes through. */
const gapsPerLook = 200
/** The wait after an attempt that did not fill a gap. The history may be complete by then. */
const againAfterMs = 3_600_000
/** The pause for an operation that is absent, or that names fills by other ids. */
const restMs = dayMs

export const fillGapReasons: Readonly<Record<Exclude<JoinOutcome, 'filled'>, string>> = {
  'other ids': 'the history of fills names them by other ids than the service does live: it is not used',
  'other times': 'the history of fills gives them other times than the service does live: it is not used',
  incomplete: 'the history of fills lacks some that are stored, or that the candles count: it is not used',
}

/**
 * Fetches the fills of a range from a history, page by page, from the end to the beginning. Each page must show one of
 * the fills of the pages before. Resolves to null if the pages do not join.
 */
export async function fetchPastFills(ask: AskPastFills, { from, to }: TimeRange): Promise<readonly Fill[] | null> {
  const { maxSpanMs, pageRows } = pastFillSource
  const fills = new Map<string, Fill>()
  for (let end = to; ;) {
    // A millisecond more on both sides, should the ends be exclusive.
    const endTime = end + 1
    const startTime = Math.max(from - 1, endTime - maxSpanMs)
    const { rows, rejected, rejectedUnkept, surplusRows } = await ask({ startTime, endTime })
    if (rejected.length + rejectedUnkept + surplusRows > 0) return null
    const before = fills.size
    const isJoined = before === 0 || rows.some(({ execId }) => fills.has(execId))
    if (!isJoined) return null
    for (const fill of rows) fills.set(fill.execId, fill)
    // A page that is not full shows all that the history has of the time that was asked for.
    if (rows.length < pageRows && startTime < from) return [...fills.values()]
    const oldest = Math.min(...rows.map(({ ts }) => ts))
    if (fills.size === before || oldest <= from) return oldest <= from ? [...fills.values()] : null
    end = oldest
  }
}

/** Fills gaps in the recorded fills from the service's history of them, where it has one, until stopped. */
export function startFillRepair(options: FillRepairOptions): Routine {
  return startRoutine('repair of fills', options, options.everyMs ?? 10_000, new FillRepair(options).look)
}

export class FillRepair {
  readonly #options: FillRepairOptions
  readonly #triedMs = new Map<number, number>()
  readonly #restUntilMs = new Map<string, number>()
  #place: GapPlace | null = null

  constructor(options: FillRepairOptions) {
    this.#options = options
  }

  /** Goes through the next gaps, the newest first, and begins again after the oldest. */
  look = async (): Promise<void> => {
    const { db, clock, isOwn, settleMs = 120_000 } = this.#options
    const now = clock.now()
    const before = this.#place ?? { notedAt: now - settleMs, id: 0 }
    const gaps = await fillGaps(db, { since: now - pastFillSource.reachMs, before, limit: gapsPerLook })
    this.#place = gaps.length < gapsPerLook ? null : (gaps.at(-1) ?? null)
    for (const gap of gaps) {
      const tried = this.#triedMs.get(gap.id) ?? Number.NEGATIVE_INFINITY
      if (!isOwn(gap) || clock.monotonicMs() < tried + againAfterMs || this.#rests(gap)) continue
      this.#triedMs.set(gap.id, clock.monotonicMs())
      if (await this.#fill(gap)) this.#triedMs.delete(gap.id)
    }
  }

  #rests({ category }: FillGap): boolean {
    return this.#options.clock.monotonicMs() < (this.#restUntilMs.get(operationOf(category)) ?? 0)
  }

  #rest({ category }: FillGap): void {
    this.#restUntilMs.set(operationOf(category), this.#options.clock.monotonicMs() + restMs)
  }

  /** Resolves to true if the gap was filled. */
  async #fill(gap: FillGap): Promise<boolean> {
    const { db, client, clock, logger } = this.#options
    const { category, symbol } = gap
    const { before, after } = await neighboursOf(db, gap)
    const [first, last] = [before.at(-1), after.at(-1)]
    // Nothing is stored on one side that could show whether the history names fills in the same way.
    if (first === undefined || last === undefined) return false
    const covered = { from: first.ts, to: last.ts }
    try {
      const limit = pastFillSource.pageRows
      const ask: AskPastFills = (range) =>
        client.pastFills({ category, symbol, limit, ...range }, { priority: 'repair' })
      const fills = await fetchPastFills(ask, covered)
      const outcome = fills === null ? 'incomplete' : await storePastFills(db, gap, covered, fills, clock.now())
      if (outcome === 'filled') return true
      await explainFillGap(db, gap, fillGapReasons[outcome])
      if (outcome === 'other ids') {
        logger.warn(`${instrumentText(gap)}: ${fillGapReasons[outcome]} for a day`)
        this.#rest(gap)
      }
    } catch (error) {
      if (!(error instanceof ExchangeError)) throw error
      if (error.kind === 'absent') this.#rest(gap)
      else logger.debug(`repair of fills: ${error.message}`)
    }
    return false
  }
}

function operationOf(category: FillGap['category']): string {
  return category === 'SPOT' ? 'spot' : 'futures'
}
