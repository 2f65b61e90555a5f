import type { Kysely } from 'kysely'
import type { ExchangeClient, Page } from '../exchange/client.js'
import type { RequestOptions } from '../exchange/sender.js'
import { type CandleSeries, isSameSeries } from '../market/candle.js'
import { type Fill, fillsPerPage } from '../market/rows.js'
import { operationOfPastFills } from '../market/operation.js'
import { intersect, normalized, type Ranges, subtract, type TimeRange, union } from '../market/timeRange.js'
import {
  addMs,
  dayMs,
  earlierOf,
  laterOf,
  minuteMs,
  minuteOf,
  serviceMs,
  type ServiceMs,
  smallest,
} from '../market/values.js'
import type { Database } from '../db/schema.js'
import { missingRows } from '../ledger/batch.js'
import { explainFills, fillNeighbours, type JoinRefusal, storePastFills } from '../ledger/storePastFills.js'
import type { EventContext, EventHistory, EventOutcome, EventSeries } from './sliceWork.js'

export const fillRefusals: Readonly<Record<JoinRefusal | 'unproven' | 'lacking', string>> = {
  'other ids': 'the history of fills names them by other ids than the service does live: it is not used',
  'other values': 'the history of fills gives stored ones another time, price, size or side: it is not used',
  incomplete: 'the history of fills lacks some that are stored: it is not used',
  lacking: 'the candle of the minute counts other fills than their history has, or is still to come',
  unproven: 'no fill shows whether the history of fills has the same ids as the service does live',
}

/** How far back the service gives fills. */
export const fillReachMs = 90 * dayMs

export const fillPageRows = 1_000
/** The longest time between the ends of a request. */
export const fillSpanMs = 7 * dayMs
/** The service's history may be some seconds behind its newest rows. */
export const historyLateMs = 20_000

/** Makes the history of fills, for futures and spot. A page is believed if it shows the stored fills of its time. */
export function fillHistory(db: Kysely<Database>, series: () => readonly CandleSeries[]): EventHistory {
  const source: PastFills = {
    ask(client, { series: { category, symbol }, window: { from, to } }, request) {
      // One millisecond more is requested on both sides, because the ends may be exclusive.
      return client.pastFills(
        { category, symbol, limit: fillPageRows, startTime: addMs(from, -1), endTime: to },
        request,
      )
    },
    neighbours: (key, range) => fillNeighbours(db, key, range),
    async whyUnproven({ client, ask, request }, { category, symbol }) {
      const live = await client.fills({ category, symbol, limit: fillsPerPage }, request)
      const past = await ask(() => client.pastFills({ category, symbol, limit: fillPageRows }, request))
      const times = new Map(past.rows.map(({ execId, ts }) => [execId, ts]))
      return live.rows.some(({ execId, ts }) => times.get(execId) === ts) ? null : fillRefusals.unproven
    },
    store({ series: key, requestTime, ...shown }) {
      const { category, symbol } = key
      const minutes: CandleSeries = { category, symbol, type: 'market', interval: '1m' }
      const hasCandles = series().some((candles) => isSameSeries(candles, minutes))
      return storePastFills(db, key, { ...shown, at: requestTime, hasCandles })
    },
    explain: (key, range, reason) => explainFills(db, key, range, reason),
  }
  return { operationOf: operationOfPastFills, fetch: (...what) => fetchPastFills(source, ...what) }
}

/** Part of the history of fills that one page shows completely. */
interface PastFillsPart {
  readonly series: EventSeries
  /** The range of time of which the page holds every fill that the history has. */
  readonly covered: TimeRange
  /** The range of time of which this page and the adjoining pages before it show every fill. */
  readonly shown: TimeRange
  /** Ranges to be claimed: the wanted parts of `covered`, and of a minute that the page before has cut. */
  readonly wanted: Ranges
  /** The fills of `covered`. */
  readonly fills: readonly Fill[]
  readonly requestTime: ServiceMs
}

/** A history of fills that gives the newest ones of a window of time. They are checked by the minute. */
interface PastFills {
  /** Requests the newest fills of a window. */
  readonly ask: (
    client: ExchangeClient,
    query: { readonly series: EventSeries; readonly window: TimeRange },
    request: RequestOptions,
  ) => Promise<Page<Fill>>
  /** Resolves to the times of stored fills next to a range. Pages of the range must show these fills, too. */
  readonly neighbours: (series: EventSeries, range: TimeRange) => ReturnType<typeof fillNeighbours>
  /** Called once for a slice without a fill above it. Resolves to why nothing can be proven, or null. */
  readonly whyUnproven: (context: EventContext, series: EventSeries) => Promise<string | null>
  /** Stores fills and what they prove in one transaction. */
  readonly store: (part: PastFillsPart) => ReturnType<typeof storePastFills>
  /** Notes why a wanted range is not stored. */
  readonly explain: (series: EventSeries, range: TimeRange, reason: string) => Promise<void>
}

/** The longest window. Two milliseconds are spared, because a request reaches one millisecond beyond each end. */
const windowMs = fillSpanMs - 2
/** Requests begin this much below the lowest wanted range if no stored fill is known there. */
const marginMs = 600_000
const nothingOlder = 'its history shows nothing older'

/**
 * Fetches ranges window by window, from the newest to the oldest. Each page is stored before the next is requested, so
 * that an interrupted slice continues where it stopped. Ranges that are not wanted are skipped.
 *
 * A page covers the time from its oldest fill to its end, so an empty page covers nothing. Only an older fill proves
 * the silence below a page. Older windows are requested until one shows such a fill, or the history ends.
 */
export function fetchPastFills(
  source: PastFills,
  series: EventSeries,
  ranges: Ranges,
  context: EventContext,
): Promise<EventOutcome> {
  return new PastFillsWalk(source, series, ranges, context).run()
}

/** A window to request, and the end of the time that its page covers. A silent range may lie between the two ends. */
interface Question {
  readonly window: TimeRange
  readonly to: ServiceMs
}

class PastFillsWalk {
  readonly #source: PastFills
  readonly #series: EventSeries
  readonly #context: EventContext
  #left: Ranges
  #refused: Ranges = []
  #refusalOfAll: string | undefined
  /** True once the history is known to have the same fills as the live stream. */
  #isProven = false
  /** The range of time of which the last adjoining pages show every fill. */
  #walked: TimeRange = { from: serviceMs(NaN), to: serviceMs(NaN) }
  /** Ranges that are stored but not claimed yet, in a minute that the last page has cut. */
  #cut: Ranges = []
  /** A silent range below the last page: its upper end, and the end of the next window. */
  #silent: { readonly to: ServiceMs; readonly end: ServiceMs } | null = null

  constructor(source: PastFills, series: EventSeries, ranges: Ranges, context: EventContext) {
    this.#source = source
    this.#series = series
    this.#context = context
    this.#left = normalized(ranges)
  }

  async run(): Promise<EventOutcome> {
    for (let range = this.#left.at(-1); range !== undefined; range = this.#left.at(-1)) {
      const question = await this.#nextQuestion(range)
      if (question !== null) await this.#fetchPage(range, question)
    }
    const refused = union(this.#refused, this.#cut)
    return this.#refusalOfAll === undefined ? { refused } : { refused, refusalOfAll: this.#refusalOfAll }
  }

  /** Resolves to the next window. Refuses all ranges and resolves to null if nothing can be proven or requested. */
  async #nextQuestion(range: TimeRange): Promise<Question | null> {
    const bottom = addMs(this.#context.now(), -fillReachMs)
    const question = this.#silent === null ? await this.#questionAt(range, bottom) : this.#below(this.#silent, bottom)
    if (question === null || question.window.from < question.window.to) return question
    await this.#refuse(this.#left, nothingOlder)
    return null
  }

  #below({ to, end }: { readonly to: ServiceMs; readonly end: ServiceMs }, bottom: ServiceMs): Question {
    return { to, window: { from: laterOf(bottom, addMs(end, -windowMs)), to: end } }
  }

  /** Resolves to a window whose page also shows the stored fills next to the wanted ranges. */
  async #questionAt(range: TimeRange, bottom: ServiceMs): Promise<Question | null> {
    const from = minuteOf(this.#left[0]?.from ?? range.from)
    const { above, below } = await this.#source.neighbours(this.#series, { from, to: range.to })
    if (above === null && !(await this.#canProve())) return null
    const to = this.#endAbove(range, above)
    const lowest = laterOf(bottom, addMs(to, -windowMs))
    return { to, window: { from: laterOf(lowest, below ?? addMs(from, -marginMs)), to } }
  }

  async #canProve(): Promise<boolean> {
    if (this.#isProven) return true
    const reason = await this.#source.whyUnproven(this.#context, this.#series)
    this.#isProven = reason === null
    if (reason !== null) await this.#refuse(this.#left, reason)
    return this.#isProven
  }

  /** Returns the end of the window for a range: beyond the fill above it, and at the end of its last minute. */
  #endAbove(range: TimeRange, above: ServiceMs | null): ServiceMs {
    const minuteEnd = addMs(minuteOf(addMs(range.to, -1)), minuteMs)
    // If the range ends where the last pages began, those pages have shown what is above it.
    const isOver = range.to !== this.#walked.from && minuteEnd <= this.#context.now() - historyLateMs
    const seen = laterOf(range.to, above === null ? range.to : addMs(above, 1))
    const end = isOver ? laterOf(seen, minuteEnd) : seen
    // If the fill above is far away, the window ends at the range, because everything above the range is proven.
    return end - range.to <= windowMs / 2 ? end : range.to
  }

  async #fetchPage(range: TimeRange, { window, to }: Question): Promise<void> {
    const { ask, client, counts, request } = this.#context
    const response = await ask(() => this.#source.ask(client, { series: this.#series, window }, request))
    const { rows: fills, cursor, requestTime } = response
    counts.received += fills.length
    this.#silent = null
    if (missingRows(response) > 0) return this.#refuse([range], 'its history holds rows that cannot be understood')
    if (fills.length === 0 && cursor !== undefined)
      return this.#refuse([range], 'its history gives an empty page, and says that more rows follow')
    const isFull = fills.length >= fillPageRows || cursor !== undefined
    const oldest = smallest(fills.map(({ ts }) => ts))
    // More fills of the oldest millisecond may be on the next page.
    const covered = { from: isFull ? addMs(oldest, 1) : oldest, to }
    const wanted = covered.from < to ? intersect(this.#left, [covered]) : []
    if (covered.from < to) this.#walked = to >= this.#walked.from ? { ...this.#walked, from: covered.from } : covered
    if (wanted.length > 0) await this.#store({ covered, wanted, fills, requestTime })
    const next = this.#left.at(-1)
    if (next === undefined) return
    if (!isFull) {
      if (next.to > window.from) this.#silent = { to: earlierOf(oldest, to), end: window.from }
    } else if (wanted.length === 0) {
      const isCrowded = covered.from >= to
      if (isCrowded) await this.#refuse([range], 'more rows happened in one millisecond than a page holds')
      else this.#silent = { to: covered.from, end: covered.from }
    }
  }

  async #store({ covered, wanted, ...page }: Omit<PastFillsPart, 'series' | 'shown'>): Promise<void> {
    const claimed = union(wanted, this.#cut)
    const fills = page.fills.filter(({ ts }) => ts >= covered.from && ts < covered.to)
    const part = { ...page, series: this.#series, covered, shown: this.#walked, wanted: claimed, fills }
    const { inserted, refusal, lacking, cut } = await this.#source.store(part)
    this.#context.counts.inserted += inserted
    if (refusal !== null) {
      const isForAll = refusal === 'other ids'
      await this.#refuse(isForAll ? union(this.#left, this.#cut) : claimed, fillRefusals[refusal])
      this.#cut = []
      if (isForAll) this.#refusalOfAll = fillRefusals[refusal]
      return
    }
    this.#left = subtract(this.#left, wanted)
    await this.#refuse(lacking, fillRefusals.lacking)
    this.#cut = cut === null ? [] : intersect(claimed, [cut])
    if (cut !== null) this.#left = union(this.#left, [{ from: cut.from, to: covered.from }])
  }

  async #refuse(parts: Ranges, reason: string): Promise<void> {
    for (const part of parts) await this.#source.explain(this.#series, part, reason)
    this.#refused = union(this.#refused, parts)
    this.#left = subtract(this.#left, parts)
  }
}
