import { fillsPerPage, type TradeSign } from '../../market/rows.js'
import { dayMs, serviceMs, type ServiceMs } from '../../market/values.js'

/** A fill of a response, with the time of the service's clock. */
export interface SeenFill {
  readonly ts: ServiceMs
  readonly size: string
}

/** Factor for the fills expected since the newest ticker, because a burst may have begun. */
const unknownWeight = 1.15
/** Number of fills over which the mean size is averaged. */
const sizeMemory = 400
/** Variance of a number of fills, as a multiple of its expected value. It is high because fills come in clusters. */
const clusterVariance = 30
/** Variance of a number of fills, as a multiple of its squared expected value, because the rate is uncertain. */
const rateVariance = 6
/** Variance of the number of fills that leave the 24h volume, as a multiple of its expected value. */
const rollVariance = 5
/** Largest share by which a falling 24h volume lowers the expected number of fills. */
const maxTakenOff = 0.3
/** Sizes beyond this are no number of coins, and their sums could become infinite. */
const maxSize = 1e30
/** Shortest span assumed for a first page. A page that spans a moment is a burst, not the usual flow. */
const minSpanMs = 5_000
/** Largest number of fills that one ticker can claim for an instrument. Larger numbers would change nothing. */
const maxClaimed = 1.5 * fillsPerPage
/** Number of claimed fills with which the record of the tickers' claims begins. */
const claimedStart = 50
/**
 * Number of these 50 fills that count as confirmed at the beginning. The trust thus begins at 40 / 50 = 0.8. It is
 * below 1, because the mean of recent sizes is usually too small. A volume then suggests too many fills.
 */
const borneOutStart = 40
const maxTrust = 1.5
/** Share of the record of claims that is kept at each response. */
const recordKept = 0.9
/**
 * A response without a new fill contradicts tickers that claimed at least this many fills. The number is large, because
 * trades that leave the 24h volume look like claims.
 */
const contradicted = 50
/** Without sizes, claims of this many contradict. Tickers then tell of trades elsewhere. */
const contradictedWithoutSizes = 3
/** Share of the record of claims that is kept after a contradiction. */
const contradictedKept = 0.3
/** A record with a trust below this is forgotten as soon as a response brings a fill. */
const badRecord = 0.05

/**
 * Estimates the number of fills of one instrument that no response has shown.
 *
 * Responses give the exact times of fills. Tickers come for all instruments at once and give the volume between two
 * moments. A full page shows only the newest 100 fills, so all fills that the tickers claimed count as confirmed.
 * Trades of a day ago leave the 24h volume, so they are added to its differences. Their rate is taken as the
 * instrument's usual rate or, if lower, the average of the day. A few huge trades may make up a large part of that
 * average.
 *
 * If the volume rises, the rise is divided by the mean size of a fill. The resulting number of fills is believed almost
 * fully. If the volume falls, a huge trade has left the day. That says little about current trades, so the expected
 * number stays nearly the same.
 *
 * The constants were tuned on recorded tapes (`npm run bench -- fills --tapes DIR --part tune`). Rates are fills per
 * millisecond. Times are of the service's clock as the last response showed it, carried on by the monotonic clock. So a
 * step of the service's clock stops nothing.
 */
export class FillEstimate {
  /** Rates at the last response. */
  readonly #seen = new FillRates()
  /** Rates at `#atMs`, updated by the tickers since the last response. */
  readonly #rates = new FillRates()
  readonly #claims = new ClaimRecord()
  #atMs = -Infinity
  /** Service's clock minus the monotonic clock at the last response. */
  #offsetMs = 0
  /** Fills between the last response and `#atMs`. */
  #unseen = 0
  #responseAt = serviceMs(-Infinity)
  #newestTs = -Infinity
  #sizeSum = 0
  #sizeCount = 0
  #ticker: { ts: ServiceMs; volume: number; lastPrice: string | null; volumeText: string } | null = null
  /**
   * Times, then sizes, of the fills of the last response. They show which of these fills an earlier ticker had counted.
   */
  #page: Float64Array | null = null
  #pageCount = 0
  #pageFrom = serviceMs(Infinity)
  #assumedRate: number | null = null

  /** Takes a rate recorded by an earlier run. It holds until the first response. */
  assume(rate: number): void {
    if (this.#responseAt > -Infinity) return
    this.#assumedRate = rate
    this.#rates.set(rate)
  }

  /** Rank for the first request; higher goes first. A recorded rate ranks above any turnover of a ticker. */
  get firstRank(): number {
    if (this.#assumedRate !== null) return 1e12 * (1 + this.#assumedRate * 1_000)
    if (this.#ticker === null) return 0
    return this.#ticker.volume * Number(this.#ticker.lastPrice) || 0
  }

  /** When the service gave the last response, on its own clock; -Infinity before the first. */
  get respondedAt(): ServiceMs {
    return this.#responseAt
  }

  get usualRate(): number {
    return this.#rates.usual
  }

  /** Rate expected over the next second. */
  get rate(): number {
    return this.#rates.ahead(1_000) / 1_000
  }

  /** Number of fills by `nowMs`, of the monotonic clock, that the last response did not show; 0 before the first. */
  unseen(nowMs: number): number {
    if (this.#responseAt === -Infinity) return 0
    return this.#unseen + unknownWeight * this.#rates.ahead(Math.max(0, nowMs + this.#offsetMs - this.#atMs))
  }

  /** Takes a response that came at `nowMs`; returns its number of new fills. Rates stay unless it `tells` of them. */
  responded(newestFirst: readonly SeenFill[], serviceTime: ServiceMs, nowMs: number, tells = true): number {
    const fresh = this.countFresh(newestFirst)
    const oldest = newestFirst.at(-1)?.ts ?? serviceTime
    const isCut = fresh >= fillsPerPage
    const isFirst = this.#responseAt === -Infinity
    // The time of the last response by the clock of this one, which may have been set since.
    const stepMs = serviceTime - nowMs - this.#offsetMs
    const beforeAt = this.#responseAt + stepMs
    const shownFrom = Math.min(isFirst || isCut ? Math.max(oldest, beforeAt) : beforeAt, serviceTime)
    const shownMs = Math.max(0, serviceTime - shownFrom)
    if (!isFirst && tells) this.#claims.judge(fresh, isCut, this.#sizeCount > 0)
    this.#learnSizes(newestFirst, fresh)
    if (isFirst) this.#seen.set(this.#firstRate(fresh, shownMs))
    else if (tells) {
      const expected = this.#unseen + this.#rates.ahead(Math.max(0, serviceTime - this.#atMs - stepMs))
      // Fills that a full page hides are assumed to have come at the expected rate. With the rest of the expected
      // number instead, an estimate that is too high would confirm itself.
      const expectedRate = expected / Math.max(1, serviceTime - beforeAt)
      this.#seen.addSpan(expectedRate, Math.max(0, shownFrom - beforeAt))
    }
    if (tells) this.#seen.addFills(newestFirst, fresh, serviceTime, shownMs)
    this.#rates.copy(this.#seen)
    this.#offsetMs = serviceTime - nowMs
    this.#atMs = serviceTime
    this.#responseAt = serviceTime
    this.#unseen = 0
    this.#newestTs = newestFirst[0]?.ts ?? this.#newestTs
    this.#keepPage(newestFirst, oldest)
    return fresh
  }

  /** Takes a ticker. `isIdle` is true if it equals the one before, which came after the last response. */
  takeTicker({ ts, volume24h, lastPrice }: TradeSign, nowMs: number): { readonly isIdle: boolean } {
    const before = this.#ticker
    const now = nowMs + this.#offsetMs
    const isEarlier = before !== null && ts < before.ts
    // One that is earlier came late, unless the one before is from the future: then the service's clock was set back.
    if (ts === before?.ts || (isEarlier && before.ts <= now)) return { isIdle: false }
    const volume = Number(volume24h)
    if (!(volume < maxSize)) return { isIdle: false }
    const isUnchanged = before !== null && before.volumeText === volume24h && before.lastPrice === lastPrice
    const beforeTs = before?.ts ?? ts
    if (isUnchanged) before.ts = ts
    else this.#ticker = { ts, volume, lastPrice, volumeText: volume24h }
    if (before === null || isEarlier || ts <= this.#responseAt || this.#responseAt === -Infinity)
      return { isIdle: false }
    // A ticker from the future is from now: the service's clock was set forward.
    const at = Math.min(ts, now)
    const spanMs = at - this.#atMs
    if (spanMs <= 0) return { isIdle: false }
    const count = isUnchanged ? 0 : this.#countOf(before, volume, ts, spanMs)
    this.#unseen += count
    this.#rates.addSpan(count / spanMs, spanMs)
    this.#atMs = at
    return { isIdle: isUnchanged && beforeTs >= this.#responseAt }
  }

  /** Estimates the number of fills in the `spanMs` before a ticker whose volume has changed. */
  #countOf(before: { ts: ServiceMs; volume: number }, volume: number, ts: ServiceMs, spanMs: number): number {
    const expected = this.#rates.ahead(spanMs)
    if (this.#sizeCount === 0) {
      // Without sizes the number is unknown, and a claim counts for one.
      this.#claims.claim(1)
      return Math.max(expected, this.#claims.trust)
    }
    const meanSize = this.#sizeSum / this.#sizeCount
    const shown = before.ts < this.#responseAt ? this.#shownSince(before.ts, meanSize) : 0
    const dayRate = Math.min(volume / dayMs / meanSize, this.#seen.usual)
    const rolledOut = dayRate * (ts - before.ts)
    const net = (volume - before.volume - shown) / meanSize + rolledOut
    const variance = 1 + clusterVariance * expected + rateVariance * expected * expected
    const gain = variance / (variance + rollVariance * rolledOut)
    if (net <= 0) return expected * (1 - maxTakenOff * gain)
    const claim = Math.min(maxClaimed, net)
    this.#claims.claim(claim)
    return Math.max(0, expected + gain * (this.#claims.trust * claim - expected))
  }

  /** Volume of the fills after `ts` that responses have shown. */
  #shownSince(ts: ServiceMs, meanSize: number): number {
    let sum = 0
    for (let index = 0; index < this.#pageCount && (this.#page?.[index] as number) > ts; index++)
      sum += this.#page?.[fillsPerPage + index] as number
    // Earlier responses have shown fills before the oldest one of a full page.
    if (ts < this.#pageFrom) sum += (this.#pageFrom - ts) * this.#seen.ofMinute * meanSize
    return sum
  }

  countFresh(newestFirst: readonly SeenFill[]): number {
    let fresh = 0
    while (fresh < newestFirst.length && (newestFirst[fresh] as SeenFill).ts > this.#newestTs) fresh++
    return fresh
  }

  #learnSizes(newestFirst: readonly SeenFill[], fresh: number): void {
    for (let index = 0; index < fresh; index++) {
      const size = Number((newestFirst[index] as SeenFill).size)
      // An impossible size would dominate the mean for ever.
      if (!(size > 0 && size < maxSize)) continue
      this.#sizeSum += size
      this.#sizeCount++
    }
    if (this.#sizeCount <= sizeMemory) return
    this.#sizeSum *= sizeMemory / this.#sizeCount
    this.#sizeCount = sizeMemory
  }

  /** Rate at the first response: the recorded rate, or else the lower of the page's rate and the ticker's 24h rate. */
  #firstRate(count: number, spanMs: number): number {
    if (this.#assumedRate !== null) return this.#assumedRate
    const byPage = count / Math.max(spanMs, minSpanMs)
    if (this.#ticker === null || this.#sizeCount === 0) return byPage
    return Math.min(byPage, this.#ticker.volume / (this.#sizeSum / this.#sizeCount) / dayMs)
  }

  #keepPage(newestFirst: readonly SeenFill[], oldest: ServiceMs): void {
    this.#page ??= new Float64Array(2 * fillsPerPage)
    this.#pageCount = Math.min(fillsPerPage, newestFirst.length)
    for (let index = 0; index < this.#pageCount; index++) {
      const fill = newestFirst[index] as SeenFill
      this.#page[index] = fill.ts
      this.#page[fillsPerPage + index] = Number(fill.size)
    }
    this.#pageFrom = newestFirst.length < fillsPerPage ? serviceMs(-Infinity) : oldest
  }
}

/** Times over which rates are averaged: a sweep of the book, a burst, a busy minute and the usual flow. */
const memoriesMs = [400, 2_000, 20_000, 300_000] as const
const minuteIndex = 2
const usualIndex = 3
/** Share of the difference between an average and the next slower one that is expected to go on at first. */
const lasting = [0.35, 0.4, 0.7] as const

/**
 * A record of how many of the fills that an instrument's tickers claimed were shown by responses. It soon discredits
 * tickers that tell of trades elsewhere.
 */
class ClaimRecord {
  /** Number claimed since the last response. */
  #claimed = 0
  #claimedBefore = claimedStart
  #borneOut = borneOutStart

  /** Share of the claims that responses have shown, at most 1.5. */
  get trust(): number {
    return Math.min(maxTrust, this.#borneOut / this.#claimedBefore)
  }

  claim(count: number): void {
    this.#claimed += count
  }

  /**
   * Takes a response with `fresh` new fills.
   *
   * @param isCut true if the page is full, so that the claims may be true in full
   */
  judge(fresh: number, isCut: boolean, areSizesKnown: boolean): void {
    const isBad = this.trust < badRecord
    const claimed = Math.min(this.#claimed, fillsPerPage)
    this.#claimed = 0
    if (fresh > 0 && isBad) {
      this.#claimedBefore = claimedStart
      this.#borneOut = borneOutStart
    } else if (claimed > 0) {
      const limit = areSizesKnown ? contradicted : contradictedWithoutSizes
      const isContradicted = fresh === 0 && claimed >= limit
      this.#claimedBefore = this.#claimedBefore * recordKept + claimed
      this.#borneOut = this.#borneOut * (isContradicted ? contradictedKept : recordKept) + (isCut ? claimed : fresh)
    }
  }
}

/** Average rates of fills, in fills per millisecond. Fast ones follow a burst, slow ones the usual flow. */
class FillRates {
  readonly #averages = [0, 0, 0, 0]

  get usual(): number {
    return this.#averages[usualIndex] as number
  }

  get ofMinute(): number {
    return this.#averages[minuteIndex] as number
  }

  set(rate: number): void {
    this.#averages.fill(rate)
  }

  copy(other: FillRates): void {
    for (let index = 0; index < memoriesMs.length; index++) this.#averages[index] = other.#averages[index] as number
  }

  /** Takes a constant rate over the next `spanMs`. */
  addSpan(rate: number, spanMs: number): void {
    for (const [index, memoryMs] of memoriesMs.entries()) {
      const kept = Math.exp(-spanMs / memoryMs)
      this.#averages[index] = rate * (1 - kept) + (this.#averages[index] as number) * kept
    }
  }

  /** Takes the first `count` fills of a page, which happened in the `spanMs` before `at` whatever their `ts` say. */
  addFills(newestFirst: readonly SeenFill[], count: number, at: ServiceMs, spanMs: number): void {
    for (const [index, memoryMs] of memoriesMs.entries()) {
      let sum = 0
      for (let fill = 0; fill < count; fill++)
        sum += Math.exp(-Math.max(0, Math.min(spanMs, at - (newestFirst[fill] as SeenFill).ts)) / memoryMs)
      this.#averages[index] = sum / memoryMs + (this.#averages[index] as number) * Math.exp(-spanMs / memoryMs)
    }
  }

  /** Number of fills expected in the next `spanMs`. A rate above the usual one is expected to fade. */
  ahead(spanMs: number): number {
    let count = this.usual * spanMs
    // This runs for every instrument at each choice, so it avoids iterators.
    for (let index = 0; index < lasting.length; index++) {
      const memoryMs = memoriesMs[index] as number
      const beyond = (this.#averages[index] as number) - (this.#averages[index + 1] as number)
      count += (lasting[index] as number) * beyond * memoryMs * -Math.expm1(-spanMs / memoryMs)
    }
    return Math.max(0, count)
  }
}
