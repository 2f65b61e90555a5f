/**
 * What may be claimed of the fills of one instrument, and what must be. Written from the text of the rule alone, over
 * plain arrays, and recomputed from all that ever came: nothing here knows how the recorder keeps its ledger.
 */
import {
  askedOf,
  groupsOf,
  isAskedOtherwise,
  isReadInPart,
  keepsBounds,
  runOf,
  runOfGroup,
  idsAt,
  sameValues,
  settledBy,
  storedOf,
  type Fill,
  type Operation,
  type Page,
  type Seen,
} from './runs.js'
import { covers, disorderOf, intersect, momentsOf, subtract, unite, type Span } from './spans.js'

export type MinuteCandle = {
  open: number
  at: number
  prices: { open: number; high: number; low: number; close: number }
  volume: number
}

type Leftover = { fill: Fill }

const minute = 60_000
const settlingOfCandles = 5_000

export class FillModel {
  readonly stored = new Map<string, Fill>()
  private readonly seen: Seen[] = []
  private must: Span[] = []
  private readonly candles: MinuteCandle[] = []
  private leftOut: Leftover[] = []
  private flapping: Leftover[] = []
  /** Minutes whose closed candle counted more than the stored fills of a minute that had to be claimed whole. */
  private underCounted = new Set<number>()
  /** Those of minutes that may have been claimed whole. */
  private perhapsUnderCounted = new Set<number>()
  private shownDisorder = 0
  /** A page left out stored fills, perhaps because times leave their order by more than was shown. */
  private isOrderInDoubt = false
  private readonly mostRows: Record<Operation, number> = { live: 0, history: 0 }
  /** The oldest time that each operation has shown in a response that was believed. */
  private readonly oldest: Record<Operation, number> = { live: Infinity, history: Infinity }

  receive(page: Page): void {
    const { operation, rows } = page
    this.isOrderInDoubt ||= page.isOrderInDoubt === true
    const known = rows.filter(({ id }) => this.stored.has(id))
    const isSame = (fill: Fill) => sameValues(fill, this.stored.get(fill.id))
    const flapping = known.filter((fill) => !isSame(fill))
    const agreeing = known.filter(isSame)
    const ids = new Set(rows.map(({ id }) => id))
    const agreed = new Set(agreeing.map(({ id }) => id))

    const own = disorderOf(rows)
    if (operation === 'history') this.shownDisorder = Math.max(this.shownDisorder, own)
    const disorder = operation === 'history' ? this.shownDisorder : own
    this.mostRows[operation] = Math.max(this.mostRows[operation], rows.length)
    const run = runOf(page, disorder)
    // A history may not show yet what is not settled in it.
    const until = operation === 'history' ? Math.min(run[1], settledBy(page)) : run[1]
    // A page of the history that proves nothing may leave out rows. It is believed in those that it shows.
    const isWeighed = operation === 'live' || isReadInPart(page)
    const missing = [...this.stored.values()].filter(
      ({ id, time }) => isWeighed && !ids.has(id) && !page.unread.includes(time) && run[0] <= time && time < until,
    )
    if (operation === 'history' && missing.length > 0 && flapping.length === 0 && disorder < minute) {
      // It may leave out fills near its edges, because times leave their order by more than was shown.
      this.isOrderInDoubt ||= disorder > 0
      this.shownDisorder = 2 * disorder
    }

    // A history that agrees with no stored fill is not believed at all.
    const isBelieved = operation === 'live' || agreeing.length > 0
    if (isBelieved)
      this.flapping = [
        ...this.flapping.filter(({ fill }) => !agreed.has(fill.id)),
        ...flapping.map(storedOf(this.stored)),
        ...flapping.map((fill) => ({ fill })),
      ]
    this.leftOut = this.leftOut.filter(({ fill }) => !agreed.has(fill.id))
    // A page of the history that disagrees with what is stored is not believed in anything.
    if (operation === 'history' && flapping.length + missing.length > 0) return this.recount()
    if (operation === 'live') this.leftOut.push(...missing.map((fill) => ({ fill })))
    const isUnbroken = missing.length === 0 && isReadInPart(page)
    if (operation === 'live') this.doubt(rows, isUnbroken ? run[0] : Infinity)
    for (const fill of rows) if (!this.stored.has(fill.id)) this.stored.set(fill.id, fill)

    const times = rows.map(({ time }) => time)
    this.seen.push({ page, disorder, isUnbroken, moments: momentsOf(times) })
    this.oldest[operation] = Math.min(this.oldest[operation], ...times)
    if (isUnbroken && !(operation === 'history' && this.isOrderInDoubt)) {
      const proven: Span = [run[0], Math.min(run[1], settledBy(page))]
      this.must = unite([...this.must, ...subtract([proven], momentsOf(page.unread))])
    }
    // A row of claimed time that cannot be understood leaves its millisecond unproven.
    this.must = subtract(this.must, momentsOf(page.unread))
    this.recount()
  }

  /** New rows, and none stored before them: a claim of their time may lack others, from the newest older row on. */
  private doubt(rows: readonly Fill[], until: number): void {
    const oldest = Math.min(...rows.map(({ time }) => time))
    if (rows.some(({ id, time }) => time === oldest && this.stored.has(id))) return
    const older = [...this.stored.values()].filter(({ time }) => time < oldest).map(({ time }) => time)
    const newest = Math.max(...rows.map(({ time }) => time))
    this.must = subtract(this.must, [[Math.max(...older), Math.min(Math.max(until, oldest + 1), newest + 1)]])
  }

  copy(): FillModel {
    const copy = new FillModel()
    for (const [id, fill] of this.stored) copy.stored.set(id, fill)
    copy.seen.push(...this.seen)
    copy.candles.push(...this.candles)
    Object.assign(copy.mostRows, this.mostRows)
    Object.assign(copy.oldest, this.oldest)
    copy.must = this.must
    copy.leftOut = [...this.leftOut]
    copy.flapping = this.flapping
    copy.underCounted = new Set(this.underCounted)
    copy.perhapsUnderCounted = new Set(this.perhapsUnderCounted)
    copy.shownDisorder = this.shownDisorder
    copy.isOrderInDoubt = this.isOrderInDoubt
    return copy
  }

  /** Equal for models that judge alike, whatever comes: in which order they came to know it means nothing to them. */
  knowledge(): string {
    const sorted = (values: Iterable<unknown>) => [...values].map((value) => JSON.stringify(value)).toSorted()
    return JSON.stringify([
      sorted(this.stored.values()),
      sorted(this.seen),
      sorted(this.candles),
      sorted(this.leftOut),
      sorted(this.flapping),
      sorted(this.underCounted),
      sorted(this.perhapsUnderCounted),
      [this.must, this.mostRows, this.oldest, this.shownDisorder, this.isOrderInDoubt],
    ])
  }

  /** A closed candle of the market type. */
  receiveCandle(candle: MinuteCandle): void {
    if (candle.at < candle.open + minute + settlingOfCandles) return
    this.candles.push(candle)
    this.recount()
  }

  /** Everything that a claim may hold. */
  mayClaim(within: Span = [-Infinity, Infinity]): Span[] {
    const proven = [...this.joinedRuns(), ...this.silences(within), ...this.countedMinutes()]
    return subtract(intersect(unite(proven), [within]), this.contradictions())
  }

  /** Everything that a claim has to hold. It leaves out what a reading of the rule could leave open. */
  mustClaim(): Span[] {
    return this.must
  }

  /**
   * What is claimed or in a gap: all time between live responses that no row joins, and between the first and the last
   * claim. A later response may still join what a live one shows.
   */
  mustAccountFor(claims: readonly Span[]): Span[] {
    const live = this.seen.filter(({ page }) => page.operation === 'live' && page.rows.length > 0)
    const hulls = groupsOf(live, (row, other) => other !== undefined && row.id === other.id)
      .filter((group) => group.some(({ isUnbroken }) => isUnbroken))
      .map((group) => group.flatMap(({ page }) => page.rows.map(({ time }) => time)))
      .map((times): Span => [Math.min(...times), Math.max(...times) + 1])
    const shown = unite(hulls)
    const hullOf = (spans: readonly Span[]): Span => [spans[0]?.[0] ?? 0, spans.at(-1)?.[1] ?? 0]
    return subtract([hullOf(shown), hullOf(claims)], shown)
  }

  /** The milliseconds and minutes that no claim may touch. */
  contradictions(): Span[] {
    return unite([
      ...momentsOf([...this.leftOut, ...this.flapping].map(({ fill }) => fill.time)),
      ...[...this.underCounted].map((open): Span => [open, open + minute]),
      ...this.mispricedMinutes(),
    ])
  }

  /** What of these claims a candle speaks against: minutes that are claimed whole and hold less than it counts. */
  refuted(claims: readonly Span[]): Span[] {
    return this.latestCandles()
      .map((candle): [MinuteCandle, Span] => [candle, [candle.open, candle.open + minute]])
      .filter(([candle, span]) => covers(claims, span) && (this.countsMore(candle) || this.isWrongAtEdges(candle)))
      .map(([, span]) => span)
  }

  private unbroken(): Seen[] {
    return this.seen.filter(({ isUnbroken, page }) => isUnbroken && page.rows.length > 0)
  }

  /** The runs of all groups of responses that rows join. A millisecond where two only touch is in neither. */
  private joinedRuns(): Span[] {
    const groups = groupsOf(this.unbroken(), sameValues)
    const alone = this.unbroken().map((seen) => [seen])
    return [...groups.map((group) => runOfGroup(group)), ...alone.map((group) => runOfGroup(group))].flat()
  }

  private silences(within: Span): Span[] {
    const found: Span[] = []
    const whole = this.seen.filter(({ page }) => page.unread.length === 0 && keepsBounds(page))
    for (const asking of whole) {
      const { alone, edges } = this.askedAlone(asking)
      const { operation } = asking.page
      const reachedBy = (other: Operation) =>
        intersect(
          alone.filter(([from]) => this.reaches(operation, from) && this.reaches(other, from)),
          [within],
        )
      const stretches = { live: reachedBy('live'), history: reachedBy('history') }
      const atEdges = intersect(edges, [within]).map((edge) => ({ edge, ids: idsAt(edge, asking) }))
      if (atEdges.length + stretches.live.length + stretches.history.length === 0) continue
      for (const other of whole) {
        if (other === asking || !isAskedOtherwise(asking.page, other.page)) continue
        const [from, to] = askedOf(other.page)
        const settled = Math.min(settledBy(asking.page), settledBy(other.page))
        const asked = intersect(stretches[other.page.operation], [[from, Math.min(to, settled)]])
        found.push(...subtract(asked, other.moments))
        for (const { edge, ids } of atEdges) if (ids === idsAt(edge, other)) found.push(edge)
      }
    }
    for (const span of this.quietMinutes()) {
      for (const other of this.seen) {
        const asked = intersect([span], [[-Infinity, Math.min(askedOf(other.page)[1], settledBy(other.page))]])
        found.push(...subtract(asked, other.moments))
      }
    }
    return found
  }

  /** The stretches that this response was asked for alone: all of an empty one, or that beside the rows at its edge. */
  private askedAlone({ page }: Seen): { readonly alone: readonly Span[]; readonly edges: readonly Span[] } {
    const none = { alone: [], edges: [] }
    if (page.from === null) return none
    // Rows outside of the asked stretch bound nothing.
    const [from, to] = askedOf(page)
    const times = [...new Set(page.rows.map(({ time }) => time))]
    if (times.length === 0) return { alone: [[from, to]], edges: [] }
    if (page.rows.length >= this.mostRows[page.operation]) return none
    const edges = momentsOf(times.filter((time) => time >= from && time < to))
    // Any page with rows may be cut. An empty one is asked for up to a moment beside them.
    const aboveMs = times.every((time) => time % 1_000 === 0) ? 1_002 : 2
    const near = times.map((time): Span => [time - 2, time + 1 + aboveMs])
    return { alone: [...intersect(subtract([[from, to]], edges), unite(near)), ...edges], edges }
  }

  /** The operation has shown a fill as old as that. */
  private reaches(operation: Operation, time: number): boolean {
    return this.oldest[operation] <= time
  }

  private quietMinutes(): Span[] {
    return this.latestCandles()
      .filter(({ volume, open }) => volume === 0 && this.fillsOf(open).length === 0)
      .map(({ open }): Span => [open, open + minute])
  }

  /** Minutes whose candle counts what is stored, at fitting prices: nothing else came in them. */
  private countedMinutes(): Span[] {
    return this.latestCandles()
      .filter((candle) => candle.volume === this.volumeOf(candle.open))
      .map(({ open }): Span => [open, open + minute])
  }

  private recount(): void {
    // What is contradicted is withdrawn. A later response has to prove it anew.
    this.must = subtract(this.must, this.contradictions())
    for (const candle of this.latestCandles()) {
      const isEqual = candle.volume === this.volumeOf(candle.open)
      const span: Span = [candle.open, candle.open + minute]
      if (isEqual) {
        this.underCounted.delete(candle.open)
        this.perhapsUnderCounted.delete(candle.open)
      }
      // A known gap in a minute explains what its candle counts more.
      else if (this.countsMore(candle) && covers(this.must, span)) {
        this.underCounted.add(candle.open)
      } else if (this.countsMore(candle) && !this.perhapsUnderCounted.has(candle.open)) {
        // A part of it may have been claimed because an earlier candle counted what is stored.
        const mayHaveAgreed = this.candles.some(
          ({ open, volume }) => open === candle.open && volume <= this.volumeOf(open),
        )
        if (mayHaveAgreed || covers(this.mayClaim(span), span)) this.perhapsUnderCounted.add(candle.open)
      }
    }
    const perhaps = [...this.perhapsUnderCounted].map((open): Span => [open, open + minute])
    this.must = subtract(this.must, [...this.contradictions(), ...perhaps])
  }

  private mispricedMinutes(): Span[] {
    return this.latestCandles()
      .filter(({ open, prices }) => this.fillsOf(open).some(({ price }) => price < prices.low || price > prices.high))
      .map(({ open }): Span => [open, open + minute])
  }

  private isWrongAtEdges({ open, prices }: MinuteCandle): boolean {
    const fills = this.fillsOf(open)
    const first = Math.min(...fills.map(({ time }) => time))
    const last = Math.max(...fills.map(({ time }) => time))
    const isAt = (time: number, price: number) => fills.some((fill) => fill.time === time && fill.price === price)
    return fills.length > 0 && !(isAt(first, prices.open) && isAt(last, prices.close))
  }

  private countsMore(candle: MinuteCandle): boolean {
    return candle.volume > this.volumeOf(candle.open)
  }

  private fillsOf(open: number): Fill[] {
    return [...this.stored.values()].filter(({ time }) => time >= open && time < open + minute)
  }

  private volumeOf(open: number): number {
    return this.fillsOf(open).reduce((sum, { size }) => sum + size, 0)
  }

  private latestCandles(): MinuteCandle[] {
    const latest = new Map<number, MinuteCandle>()
    for (const candle of this.candles) {
      const before = latest.get(candle.open)
      if (before === undefined || before.at <= candle.at) latest.set(candle.open, candle)
    }
    return [...latest.values()]
  }
}
