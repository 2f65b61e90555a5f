import type { TradeSign } from '../../market/ticker.js'
import type { TimeMs } from '../../market/values.js'
import { fillsPerPage } from '../../market/fill.js'

/** What a response tells of an instrument's activity: its fills newest first, by the service's clock. */
export interface SeenFill {
  readonly ts: TimeMs
  readonly size: string
}

/** Rates are averaged over these times: a burst, a busy minute, the usual flow. */
const [burstMs, minuteMs, usualMs] = [2_000, 20_000, 300_000] as const
const memoriesMs = [burstMs, minuteMs, usualMs] as const
/** So much of a difference between a faster average and the next slower one is expected to last at first. */
const [burstLasts, minuteLasts] = [0.6, 0.5]
/** What happened since the newest ticker counts for more than was expected: it may be a burst. */
const unknownWeight = 1.3
/** So many fills are enough to know their mean size. */
const sizeMemory = 400
/** Counts vary by far more than chance (a gamma mix with this shape), volumes told in sizes only somewhat. */
const [countShape, sizeNoise] = [0.1, 0.3]
const dayMs = 86_400_000
/** A first page that spans a moment is a burst, not the usual flow. */
const leastSpanMs = 5_000
/** No ticker can claim more than this for one instrument: it would change nothing. */
const mostClaimed = 3 * fillsPerPage
/** How the record of a ticker's claims begins, in fills, and what of it each response leaves. */
const [recordStart, recordKept] = [4, 0.9]
/** A record as bad as this is forgotten as soon as a response brings a fill. */
const badRecord = 0.05

/**
 * How many fills of one instrument have happened that no response showed.
 *
 * Responses give the times of fills exactly, and tickers, which come for all instruments at once, the volume between two
 * moments. A full page is a count cut off at 100: what was hidden is taken for as much as the tickers claimed. A 24h volume
 * rolls, so yesterday's trades are added to its differences at their average. A volume divided by the mean size of a fill is
 * a count with much noise; it moves the estimate by as much as it is more certain than what was expected. How much of the
 * claims the responses have borne out is kept as a record: tickers that tell of trades elsewhere are soon not believed.
 * Times are the service's, rates are fills per millisecond.
 */
export class FillEstimate {
  /** Average rates over the three memories, at the last response. */
  readonly #seen = new Float64Array(3)
  /** The same carried on by the tickers since, at `#atMs`. */
  readonly #rates = new Float64Array(3)
  #atMs = -Infinity
  /** Fills between the last response and `#atMs`. */
  #unseen = 0
  #responseAt = -Infinity
  #newestTs = -Infinity
  #sizeSum = 0
  #sizeCount = 0
  #ticker: { ts: TimeMs; volume: number; text: string } | null = null
  #claimed = 0
  #claimedBefore = recordStart
  #borneOut = recordStart
  /** Fills of the last response, to tell which of them the ticker before it had counted. */
  #pageTimes: Float64Array | null = null
  #pageSizes: Float64Array | null = null
  #pageCount = 0
  #pageFrom: TimeMs = Infinity
  #assumedRate: number | null = null

  /** Takes a rate from an earlier run, until a response shows a newer one. */
  assume(rate: number): void {
    if (this.#responseAt > -Infinity) return
    this.#assumedRate = rate
    this.#rates.fill(rate)
  }

  /** What the order of first requests goes by: busy ones first, as far as anything is known of it. */
  get firstRank(): number {
    if (this.#assumedRate !== null) return 1e12 * (1 + this.#assumedRate * 1_000)
    if (this.#ticker === null) return 0
    return this.#ticker.volume * Number(this.#ticker.text.split(' ')[1] ?? 0) || 0
  }

  get usualRate(): number {
    return this.#rates[2] as number
  }

  /** The rate of the moment. */
  get rate(): number {
    return Math.max(0, this.#ahead(1_000)) / 1_000
  }

  /** How much of what the tickers claimed the responses have shown. */
  get trust(): number {
    return Math.min(1.5, this.#borneOut / this.#claimedBefore)
  }

  /** Fills at `at` that the last response did not show. */
  unseen(at: TimeMs): number {
    return this.#unseen + unknownWeight * this.#ahead(Math.max(0, at - this.#atMs))
  }

  /** Fills expected in so many milliseconds from `#atMs`: what is faster than usual is expected to fade. */
  #ahead(spanMs: number): number {
    const [burst, minute, usual] = this.#rates as unknown as [number, number, number]
    const minutePart = minuteLasts * (minute - usual) * minuteMs * -Math.expm1(-spanMs / minuteMs)
    const burstPart = burstLasts * (burst - minute) * burstMs * -Math.expm1(-spanMs / burstMs)
    return Math.max(0, usual * spanMs + minutePart + burstPart)
  }

  /** Takes a response; returns how many fills in it are new. */
  answered(newestFirst: readonly SeenFill[], serviceTime: TimeMs): number {
    const isFirst = this.#responseAt === -Infinity
    const fresh = this.#countFresh(newestFirst)
    const oldest = newestFirst.at(-1)?.ts ?? serviceTime
    const isCut = fresh >= fillsPerPage
    if (!isFirst) this.#judgeClaims(fresh, isCut)
    const from = isFirst || isCut ? Math.min(oldest, serviceTime) : Math.min(this.#responseAt, serviceTime)
    const hiddenMs = isFirst ? 0 : Math.max(0, from - this.#responseAt)
    const spanMs = Math.max(0, serviceTime - from)
    this.#learnSizes(newestFirst, fresh)
    // What a full page hides went at the rate that was expected: had it been what is left of the expected number, an
    // estimate that is too high would feed itself.
    const expected = this.#unseen + this.#ahead(Math.max(0, serviceTime - this.#atMs))
    const hiddenRate = isFirst ? 0 : expected / Math.max(1, serviceTime - this.#responseAt)
    const before = this.#firstRate(fresh, spanMs)
    for (const [index, memoryMs] of memoriesMs.entries()) {
      let sum = 0
      for (let fill = 0; fill < fresh; fill++)
        sum += Math.exp(Math.min(0, (newestFirst[fill] as SeenFill).ts - serviceTime) / memoryMs)
      const kept = Math.exp(-hiddenMs / memoryMs)
      const past = isFirst ? before : hiddenRate * (1 - kept) + (this.#seen[index] as number) * kept
      this.#seen[index] = sum / memoryMs + past * Math.exp(-spanMs / memoryMs)
    }
    this.#rates.set(this.#seen)
    this.#atMs = serviceTime
    this.#responseAt = serviceTime
    this.#unseen = 0
    this.#newestTs = newestFirst[0]?.ts ?? this.#newestTs
    this.#keepPage(newestFirst, oldest)
    return fresh
  }

  /** Takes a ticker; returns whether it tells that nothing was traded since the one before, which no response is newer than. */
  traded({ ts, volume24h, lastPrice }: TradeSign): boolean {
    const before = this.#ticker
    if (before !== null && ts <= before.ts) return false
    const volume = Number(volume24h)
    const text = `${volume24h} ${lastPrice}`
    this.#ticker = { ts, volume, text }
    if (before === null || ts <= this.#responseAt || this.#responseAt === -Infinity) return false
    const spanMs = ts - this.#atMs
    if (spanMs <= 0) return false
    const isUnchanged = before.text === text
    const count = isUnchanged ? 0 : this.#countOf(before, volume, ts, spanMs)
    this.#unseen += count
    for (const [index, memoryMs] of memoriesMs.entries()) {
      const kept = Math.exp(-spanMs / memoryMs)
      this.#rates[index] = (count / spanMs) * (1 - kept) + (this.#rates[index] as number) * kept
    }
    this.#atMs = ts
    return isUnchanged && before.ts >= this.#responseAt
  }

  #countOf(before: { ts: TimeMs; volume: number }, volume: number, ts: TimeMs, spanMs: number): number {
    const expected = this.#ahead(spanMs)
    if (this.#sizeCount === 0) return Math.max(expected, this.trust)
    const meanSize = this.#sizeSum / this.#sizeCount
    const shown = before.ts < this.#responseAt ? this.#shownSince(before.ts, meanSize) : 0
    const rolledOut = (volume / dayMs) * (ts - before.ts)
    const claim = Math.min(mostClaimed, Math.max(0, volume - before.volume - shown + rolledOut) / meanSize)
    this.#claimed += claim
    const variance = expected + (expected * expected) / countShape
    const noise = sizeNoise * (Math.max(claim, 1) + Math.min(mostClaimed, rolledOut / meanSize))
    const gain = variance / (variance + noise)
    return Math.max(0, expected + Math.max(gain, leastGain) * (this.trust * claim - expected))
  }

  /** The volume of the fills that responses showed after `ts`. */
  #shownSince(ts: TimeMs, meanSize: number): number {
    let sum = 0
    for (let index = 0; index < this.#pageCount && (this.#pageTimes?.[index] as number) > ts; index++)
      sum += this.#pageSizes?.[index] as number
    // Before the oldest fill of a full page others were shown, by responses before.
    if (ts < this.#pageFrom) sum += (this.#pageFrom - ts) * (this.#seen[1] as number) * meanSize
    return sum
  }

  #countFresh(newestFirst: readonly SeenFill[]): number {
    let fresh = 0
    while (fresh < newestFirst.length && (newestFirst[fresh] as SeenFill).ts > this.#newestTs) fresh++
    return fresh
  }

  #judgeClaims(fresh: number, isCut: boolean): void {
    const isBad = this.trust < badRecord
    const claimed = Math.min(this.#claimed, fillsPerPage)
    this.#claimed = 0
    if (fresh > 0 && isBad) {
      this.#claimedBefore = recordStart
      this.#borneOut = recordStart
    } else if (claimed > 0) {
      this.#claimedBefore = this.#claimedBefore * recordKept + claimed
      this.#borneOut = this.#borneOut * recordKept + (isCut ? claimed : fresh)
    }
  }

  #learnSizes(newestFirst: readonly SeenFill[], fresh: number): void {
    for (let index = 0; index < fresh; index++) {
      const size = Number((newestFirst[index] as SeenFill).size)
      if (!(size > 0)) continue
      this.#sizeSum += size
      this.#sizeCount++
    }
    if (this.#sizeCount <= sizeMemory) return
    this.#sizeSum *= sizeMemory / this.#sizeCount
    this.#sizeCount = sizeMemory
  }

  /** The rate before the first response: as recorded, or as its page shows, or as the ticker's day makes one expect. */
  #firstRate(count: number, spanMs: number): number {
    if (this.#assumedRate !== null) return this.#assumedRate
    const byPage = count / Math.max(spanMs, leastSpanMs)
    if (this.#ticker === null || this.#sizeCount === 0) return byPage
    return Math.min(byPage, this.#ticker.volume / (this.#sizeSum / this.#sizeCount) / dayMs)
  }

  #keepPage(newestFirst: readonly SeenFill[], oldest: TimeMs): void {
    this.#pageTimes ??= new Float64Array(fillsPerPage)
    this.#pageSizes ??= new Float64Array(fillsPerPage)
    this.#pageCount = Math.min(fillsPerPage, newestFirst.length)
    for (let index = 0; index < this.#pageCount; index++) {
      const fill = newestFirst[index] as SeenFill
      this.#pageTimes[index] = fill.ts
      this.#pageSizes[index] = Number(fill.size)
    }
    this.#pageFrom = newestFirst.length < fillsPerPage ? -Infinity : oldest
  }
}

/** A ticker's claim moves even an instrument of which nothing was expected. */
const leastGain = 0.3
