import type { ExchangeClient, Page } from '../exchange/client.js'
import type { RequestOptions } from '../exchange/sender.js'
import type { Fill } from '../market/rows.js'
import { intersect, normalized, type Ranges, subtract, type TimeRange, union } from '../market/timeRange.js'
import { addMs, dayMs, earlierOf, laterOf, minuteMs, serviceMs, type ServiceMs } from '../market/values.js'
import { missingRows } from '../ledger/batch.js'
import { insideOf, runOf, shownFills, type ShownPage, showsOnlyEdges, standOf } from '../ledger/run.js'
import { unreadFills } from '../ledger/storeFills.js'
import {
  type fillNeighbours,
  historyLateMs,
  type JoinRefusal,
  type storePastFills,
  type StoredPastFills,
} from '../ledger/storePastFills.js'
import { fewestRows } from './pagesWalk.js'
import { type EventContext, type EventOutcome, type EventSeries, nothingOlder } from './sliceWork.js'

export const fillRefusals: Readonly<Record<JoinRefusal, string>> = {
  'other ids': 'the history of fills names them by other ids than the service does live: it is not used',
  'other values': 'the history of fills gives stored ones another time, price, size or side: it is not used',
  incomplete: 'the history of fills lacks some that are stored: it is not used',
  unproven: 'no fill shows whether the history of fills has the same ids as the service does live',
}
const notShown = 'its history does not show this time twice in the same way'
const notUnderstood = 'its history holds rows that cannot be understood'
const hasMore = 'its history gives an empty page, and says that more rows follow'
const crowded = 'more rows happened at one time than a page holds'

const allTime = { from: serviceMs(-Infinity), to: serviceMs(Infinity) }

const unreadOf = (page: Page<Fill>) => unreadFills(page) ?? [allTime]

/** How far back the service gives fills. */
export const fillReachMs = 90 * dayMs

/** The longest time between the ends of a request. */
export const fillSpanMs = 7 * dayMs
/** The longest window. Two milliseconds are spared, because a request reaches one millisecond beyond each end. */
export const fillWindowMs = fillSpanMs - 2
/** Requests begin this much below the lowest wanted range if no stored fill is known there, and end so much above. */
const marginMs = 10 * minuteMs
const marginAboveMs = minuteMs

/** Times that run against the order by more than this are not looked for. */
const largestDisorderMs = minuteMs
/** After this many pages that prove nothing, new fills in them do not lead to further requests. */
const maxInVain = 20

/** What is known of the pages of a category. Its sizes decide what is requested next. */
export interface KnownPages {
  /** The largest number of rows that a page had, of any instrument and of each. */
  largest: number
  readonly largestOf: Map<string, number>
  /** The largest age of a row when it was shown. The history is known to reach back so far. */
  reachMs: number
  /** The most by which times ran against the order of the rows, and when they did so last. A day later it is forgotten. */
  disorderMs: number
  disorderAt: ServiceMs
  /** For how long a fill stands. It is a second, as in a history in whole seconds, until a page shows finer times. */
  standsMs: number
  /** True once a page of an instrument showed a fill by the id that it has live. */
  showsLiveIds: boolean
}

/** A page of a history of fills, as it is stored. */
type PastFillsPage = Parameters<typeof storePastFills>[2] & { readonly series: EventSeries }

/** A history of fills that gives some of the fills of a window of time: the newest, the oldest, or others. */
export interface PastFills {
  readonly ask: (
    client: ExchangeClient,
    query: { readonly series: EventSeries; readonly window: TimeRange },
    request: RequestOptions,
  ) => Promise<Page<Fill>>
  readonly sizesOf: (series: EventSeries) => KnownPages
  /** Resolves to the times of stored fills next to a range. Pages of the range must show these fills, too. */
  readonly neighbours: (series: EventSeries, range: TimeRange, slackMs: number) => ReturnType<typeof fillNeighbours>
  /** Called once for a slice without a fill above it. Resolves to the newest fills, or why nothing can be proven. */
  readonly liveFills: (context: EventContext, series: EventSeries) => Promise<readonly Fill[] | string>
  /** Stores fills and what they prove in one transaction. */
  readonly store: (page: PastFillsPage) => Promise<StoredPastFills>
  /** Notes why a wanted range is not stored. */
  readonly explain: (series: EventSeries, range: TimeRange, reason: string) => Promise<void>
}

/**
 * Fetches ranges window by window, from the newest to the oldest. Each page is stored before the next is requested, so
 * that an interrupted slice continues where it stopped.
 *
 * A page proves what lies between its fills, whichever part of its window it holds. What is left of a range is a window
 * of its own. It reaches to the stored fills next to it, so that its page joins them. The search ends: each request
 * leaves less, or brings fills, or is one of a few that a range has before it is refused.
 */
export function fetchPastFills(
  source: PastFills,
  series: EventSeries,
  ranges: Ranges,
  context: EventContext,
): Promise<EventOutcome> {
  return new PastFillsWalk(source, series, ranges, context).run()
}

class PastFillsWalk {
  readonly #source: PastFills
  readonly #series: EventSeries
  readonly #context: EventContext
  readonly #sizes: KnownPages
  #left: Ranges
  #refused: Ranges = []
  #refusalOfAll: string | undefined
  /** True once the history is known to have the same fills as the live stream. */
  #isProven = false
  /** Fills that the service shows live. A late history does not show all of them yet. */
  #live: readonly Fill[] = []
  /** Times of the history may be earlier than those of the live stream by this much. */
  #roundedMs = 0
  #last: ShownPage | null = null
  /** Time of the newest fill of the last page that had some. */
  #newest = serviceMs(0)
  /** Time of the oldest fill that this walk was shown. */
  #oldest = serviceMs(Infinity)
  /** The number of pages since less was left. */
  #inVain = 0

  constructor(source: PastFills, series: EventSeries, ranges: Ranges, context: EventContext) {
    this.#source = source
    this.#series = series
    this.#context = context
    this.#sizes = source.sizesOf(series)
    this.#left = normalized(ranges)
  }

  async run(): Promise<EventOutcome> {
    for (let range = this.#left.at(-1); range !== undefined; range = this.#left.at(-1)) await this.#goOnFrom(range)
    const refused = this.#refused
    return this.#refusalOfAll === undefined ? { refused } : { refused, refusalOfAll: this.#refusalOfAll }
  }

  /** Requests the newest range that is left until less of it is left. */
  async #goOnFrom(range: TimeRange): Promise<void> {
    const bottom = addMs(this.#context.now(), -fillReachMs)
    if (range.to <= bottom) return this.#refuse(this.#left, nothingOlder)
    const lowest = this.#left[0]?.from ?? range.from
    const { above, below } = await this.#neighbours({ from: lowest, to: range.to })
    if (above === null && !(await this.#canProve())) return
    const settledUntil = addMs(this.#context.now(), -historyLateMs)
    // A window up to a fill that is far above misses most of the range.
    const isNear = above !== null && above < addMs(range.to, fillWindowMs - dayMs)
    const beyond = isNear ? addMs(above, 1) : earlierOf(addMs(range.to, marginAboveMs), settledUntil)
    const top = laterOf(range.to, beyond)
    const windowTo = (from: ServiceMs) => ({ from: laterOf(laterOf(bottom, from), addMs(top, -fillWindowMs)), to: top })
    // A response that is asked for less than a whole second may lack fills of it.
    const whole = { from: this.#standOf(range.from), to: range.to }
    const hasShown = this.#last !== null && showsOnlyEdges(this.#last, whole, this.#sizes.largest)
    if (!hasShown && (await this.#ask(windowTo(below ?? addMs(lowest, -marginMs))))) return
    // An older fill proves the silence above it.
    if (below === null && (await this.#ask(windowTo(bottom)))) return
    await this.#askAlone({ from: laterOf(bottom, range.from), to: range.to })
  }

  /** Requests a stretch without fills alone. Refuses the time at its edge if that holds too many fills. */
  async #askAlone(stretch: TimeRange): Promise<void> {
    const other = this.#last
    const bottom = addMs(this.#context.now(), -fillReachMs)
    for (let end = stretch.to; this.#reachesTo(this.#context.now()) > stretch.from; end = addMs(end, -fillWindowMs)) {
      if (end <= bottom) return this.#refuse(this.#left, nothingOlder)
      if (await this.#ask({ from: laterOf(bottom, addMs(end, -fillWindowMs)), to: end })) return
    }
    const whole = { from: this.#standOf(stretch.from), to: stretch.to }
    const [alone] = other === null ? [] : intersect([whole], [other.asked])
    if (alone === undefined) return this.#refuse([stretch], notShown)
    if (await this.#ask(alone, other)) return
    const shown = this.#last as ShownPage
    const { rows, total, keepsBounds } = shown
    const newest = this.#newest
    // A page may be cut anywhere, so that only an empty one shows that nothing lies between the fills at the edges.
    for (let around = shown, inside = insideOf(around); inside !== null; inside = insideOf(around)) {
      if (await this.#ask(inside, other, around)) return
      around = this.#last as ShownPage
    }
    // Fills beside the stretch hide those in it only where their page may be cut.
    const isEmpty = rows.length === 0 && total < Math.max(1, this.#largestFor(total))
    if (isEmpty || !keepsBounds) return this.#refuse([stretch], notShown)
    await this.#askCrowd(stretch, shown, newest, other)
  }

  /** Asks for a time that is too crowded to show what is beside it. Refuses it if it holds too many fills. */
  async #askCrowd(stretch: TimeRange, { rows }: ShownPage, newest: ServiceMs, other: ShownPage | null) {
    // A page that begins with this time may show all of it. It is then asked for alone, too.
    const isNewestFirst = other === null || (other.rows[0]?.ts ?? 0) >= (other.rows.at(-1)?.ts ?? 0)
    const edge = runOf(rows.map(({ ts }) => ts))?.newest
    // Requests reach a little beyond the stretch. A crowd there hides the millisecond next to it.
    const isAbove = edge === undefined && newest >= stretch.to
    const from = isAbove ? addMs(stretch.to, -1) : this.#standOf(laterOf(edge ?? stretch.from, stretch.from))
    const lengthMs = isAbove ? 1 : this.#sizes.standsMs
    // A request for a whole second reaches the next one, which may be crowded, too.
    for (const askedMs of new Set([lengthMs, Math.max(1, lengthMs - 1), 1])) {
      const to = addMs(from, askedMs)
      const wide = isNewestFirst ? { from: addMs(from, -marginMs), to } : { from, to: addMs(to, marginMs) }
      if ((await this.#ask(wide)) || (await this.#ask({ from, to }))) return
    }
    await this.#refuseIn({ from, to: addMs(from, lengthMs) }, this.#left, crowded)
  }

  /** Returns the beginning of the time that a fill of the history at this time stands for. */
  #standOf(time: ServiceMs): ServiceMs {
    const { standsMs } = this.#sizes
    return serviceMs(Math.floor(time / standsMs) * standsMs)
  }

  /** Resolves to the stored fills next to a range. A crowded time next to it is not requested again. */
  async #neighbours(range: TimeRange): ReturnType<PastFills['neighbours']> {
    const { above, below } = await this.#source.neighbours(
      this.#series,
      range,
      2 * this.#sizes.disorderMs + this.#roundedMs,
    )
    return {
      above: this.#refused.some(({ from }) => from === range.to) ? null : above,
      below: this.#refused.some(({ to }) => to === range.from) ? null : below,
    }
  }

  async #canProve(): Promise<boolean> {
    if (this.#isProven) return true
    const live = await this.#source.liveFills(this.#context, this.#series)
    if (typeof live === 'string') {
      await this.#refuse(this.#left, live)
      return false
    }
    this.#live = live
    this.#isProven = true
    return true
  }

  /** Requests and stores a page. Resolves to true if less is left, or if fills came. */
  async #ask(window: TimeRange, other = this.#last, around: ShownPage | null = null): Promise<boolean> {
    const { ask, client, counts, request } = this.#context
    const page = await ask(() => this.#source.ask(client, { series: this.#series, window }, request))
    const { rows: fills, cursor } = page
    counts.received += fills.length
    if (fills.length === 0 && cursor !== undefined) return this.#refuseIn(window, this.#left, hasMore)
    this.#learn(fills, page.requestTime)
    const shown = shownFills(window, fills, this.#sizes.standsMs)
    // A page with rows that cannot be understood shows no silence.
    const isWhole = missingRows(page) === 0
    this.#last = isWhole ? shown : null
    const stored = await this.#store(window, page, isWhole ? other : null, around)
    if (stored === null) return true
    counts.inserted += stored.inserted
    if (stored.refusal !== null) return this.#refusePage(shown, stored.refusal)
    this.#isProven ||= stored.showsLive
    this.#sizes.showsLiveIds ||= stored.showsLive
    const isLess = intersect(this.#left, stored.proven).length > 0
    if (isLess) this.#left = subtract(this.#left, stored.proven)
    this.#inVain = isLess ? 0 : this.#inVain + 1
    if (!isWhole) {
      // The rest is asked for again, unless this page left all of it.
      const unread = isLess ? intersect(this.#left, unreadOf(page)) : this.#left
      if (await this.#refuseIn(window, unread, notUnderstood)) return true
    }
    return isLess || (stored.inserted > 0 && this.#inVain < maxInVain)
  }

  /** Stores a page with what it proves. Resolves to null if nothing shows that the history has the ids of live fills. */
  async #store(
    window: TimeRange,
    page: Page<Fill>,
    other: ShownPage | null,
    around: ShownPage | null,
  ): Promise<StoredPastFills | null> {
    const { rows: fills, requestTime } = page
    const told = {
      series: this.#series,
      asked: window,
      wanted: { from: this.#left[0]?.from ?? window.from, to: this.#left.at(-1)?.to ?? window.to },
      fills,
      unread: unreadOf(page),
      other,
      around,
      reachesTo: this.#reachesTo(requestTime),
      largest: this.#largestFor(around?.total ?? fills.length),
      disorderMs: this.#sizes.disorderMs,
      requestTime,
    }
    const store = () => this.#source.store({ ...told, live: this.#live, isProven: this.#isProven })
    const stored = await store()
    if (stored.refusal !== 'unproven') return stored
    return (await this.#canProve()) ? store() : null
  }

  /** Refuses what a page was asked for. Resolves to true if that is to be asked for again, or if less is left. */
  async #refusePage({ asked, rows }: ShownPage, refusal: JoinRefusal): Promise<boolean> {
    const { disorderMs } = this.#sizes
    if (refusal === 'incomplete' && rows.length > 1 && disorderMs > 0 && disorderMs < largestDisorderMs) {
      // The page lacks fills near its edges, which are elsewhere in its order.
      this.#sizes.disorderMs = 2 * disorderMs
      return true
    }
    const reason = fillRefusals[refusal]
    if (refusal !== 'other ids') return this.#refuseIn(asked, this.#left, reason)
    this.#refusalOfAll = reason
    return this.#refuseIn(allTime, this.#left, reason)
  }

  /** Refuses the parts in a window. Returns false without any: such a window must not be asked for again. */
  async #refuseIn(window: TimeRange, parts: Ranges, reason: string): Promise<boolean> {
    const refused = intersect(parts, [window])
    await this.#refuse(refused, reason)
    return refused.length > 0
  }

  /** Returns the number of rows from which a page may be cut. Pages of other instruments tell it only of one or two. */
  #largestFor(rows: number): number {
    const { largest, largestOf } = this.#sizes
    return rows < fewestRows ? largest : (largestOf.get(this.#series.symbol) ?? 0)
  }

  /** Returns the time that the history is known to reach back to. Rows leave it with time, so that an age counts. */
  #reachesTo(at: ServiceMs): ServiceMs {
    return earlierOf(addMs(at, -this.#sizes.reachMs), this.#oldest)
  }

  #learn(fills: readonly Fill[], requestTime: ServiceMs): void {
    const run = runOf(fills.map(({ ts }) => ts))
    if (run === null) return
    this.#newest = run.newest
    const { largestOf } = this.#sizes
    const { symbol } = this.#series
    largestOf.set(symbol, Math.max(largestOf.get(symbol) ?? 0, fills.length))
    this.#sizes.largest = Math.max(this.#sizes.largest, fills.length)
    this.#oldest = earlierOf(this.#oldest, run.oldest)
    this.#sizes.reachMs = Math.max(this.#sizes.reachMs, requestTime - run.oldest)
    if (requestTime - this.#sizes.disorderAt > dayMs) this.#sizes.disorderMs = 0
    if (run.disorderMs > 0) this.#sizes.disorderAt = requestTime
    this.#sizes.disorderMs = Math.max(this.#sizes.disorderMs, run.disorderMs)
    this.#roundedMs = Math.max(this.#roundedMs, run.edge - run.oldest)
    // Fills may be at whole seconds by chance.
    if (standOf(fills) === 1) this.#sizes.standsMs = 1
  }

  async #refuse(parts: Ranges, reason: string): Promise<void> {
    for (const part of parts) await this.#source.explain(this.#series, part, reason)
    this.#refused = union(this.#refused, parts)
    this.#left = subtract(this.#left, parts)
  }
}
