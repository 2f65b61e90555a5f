import type { TradeSign } from '../../market/ticker.js'
import { dayMs, type TimeMs } from '../../market/values.js'
import { fillsPerPage } from '../../market/fill.js'

/** What a response tells of an instrument's activity: its fills newest first, by the service's clock. */
export interface SeenFill {
  readonly ts: TimeMs
  readonly size: string
}

/** Rates are averaged over these times: a sweep, a burst, a busy minute, the usual flow. */
const memoriesMs = [400, 2_000, 20_000, 300_000] as const
const [minute, usual] = [2, 3]
/** So much of a difference between a faster average and the next slower one is expected to last at first. */
const lasting = [0.35, 0.4, 0.7] as const
/** What happened since the newest ticker counts for more than was expected: it may be a burst. */
const unknownWeight = 1.15
/** So many fills are enough to know their mean size. */
const sizeMemory = 400
/**
 * Fills come in clusters, and their rate is never known well: the variance of a number that was expected is that of clusters,
 * and a multiple of its square. What drops out of the day comes in clusters too.
 */
const [clusterVariance, rateVariance, rollVariance] = [30, 6, 5]
/** When more dropped out of the day than was traded, that much at most is taken off what was expected. */
const maxTakenOff = 0.3
/** Beyond this a size is no number of coins, and sums of it end in infinity. */
const maxSize = 1e30
/** A first page that spans a moment is a burst, not the usual flow. */
const minSpanMs = 5_000
/** No ticker can claim more than this for one instrument: it would change nothing. */
const maxClaimed = 1.5 * fillsPerPage
/**
 * The squared relative error of estimates: what is usual, which counts for so many responses, and what of an instrument's
 * record each of its responses leaves. Estimates of less than one fill are not judged; no single one decides.
 */
const [usualError, usualErrorCount, errorKept, maxError] = [0.7, 10, 0.97, 25]
export const maxUnevenness = 4
/**
 * How the record of a ticker's claims begins, in fills, and what of it each response leaves. Sizes are so uneven that the mean
 * of those seen last is mostly too small: fewer fills are there than a volume makes one expect.
 */
const [claimedStart, borneOutStart, recordKept] = [50, 40, 0.9]
/**
 * A response without a fill where tickers claimed so many says that they tell of trades elsewhere: so much of the record is left.
 * Of an instrument that has fills, a claim of a few may be what has dropped out of the day.
 */
const [contradicted, contradictedWithoutSizes, contradictedKept] = [50, 3, 0.3]
/** A record as bad as this is forgotten as soon as a response brings a fill. */
const badRecord = 0.05

/**
 * How many fills of one instrument have happened that no response showed, and how far such estimates are out.
 *
 * Responses give the times of fills exactly, and tickers, which come for all instruments at once, the volume between two
 * moments. A full page is a count cut off at 100: what was hidden is taken for as much as the tickers claimed. A 24h volume
 * rolls, so yesterday's trades are added to its differences, at the instrument's own usual rate where that is less than the
 * day's average: few huge trades make most of an average, and drop out at few moments. A rise, divided by the mean size of a
 * fill, is a count, and believed nearly whole. A fall says only that a huge trade has dropped out, and next to nothing of what
 * was traded meanwhile: what was expected stands. How much of the claims the responses have borne out is kept as a record:
 * tickers that tell of trades elsewhere are soon not believed. Times are the service's, rates are fills per millisecond.
 */
export class FillEstimate {
  /** Average rates over the memories, at the last response. */
  readonly #seen = [0, 0, 0, 0]
  /** The same carried on by the tickers since, at `#atMs`. */
  readonly #rates = [0, 0, 0, 0]
  #atMs = -Infinity
  /** Fills between the last response and `#atMs`. */
  #unseen = 0
  #responseAt = -Infinity
  #newestTs = -Infinity
  #sizeSum = 0
  #sizeCount = 0
  #ticker: { ts: TimeMs; volume: number; lastPrice: string | null; volumeText: string } | null = null
  #claimed = 0
  #claimedBefore: number = claimedStart
  #borneOut: number = borneOutStart
  /** Fills of the last response, to tell which of them the ticker before it had counted: their times, then their sizes. */
  #page: Float64Array | null = null
  #pageCount = 0
  #pageFrom: TimeMs = Infinity
  #errorSum = 0
  #errorCount = 0
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
    return this.#ticker.volume * Number(this.#ticker.lastPrice) || 0
  }

  /** When the service gave the last response, by its own clock; -Infinity before the first. */
  get respondedAt(): TimeMs {
    return this.#responseAt
  }

  get usualRate(): number {
    return this.#rates[usual] as number
  }

  /** The rate of the moment. */
  get rate(): number {
    return Math.max(0, this.#ahead(1_000)) / 1_000
  }

  /** How much of what the tickers claimed the responses have shown. */
  get trust(): number {
    return Math.min(1.5, this.#borneOut / this.#claimedBefore)
  }

  /** How far the estimates of this instrument are out, compared with the usual: about 1, more where fills come in bursts. */
  get unevenness(): number {
    const error = (this.#errorSum + usualError * usualErrorCount) / (this.#errorCount + usualErrorCount)
    return Math.min(maxUnevenness, error / usualError)
  }

  /** Fills at `at` that the last response did not show; 0 before the first, since none is known of. */
  unseen(at: TimeMs): number {
    if (this.#responseAt === -Infinity) return 0
    return this.#unseen + unknownWeight * this.#ahead(Math.max(0, at - this.#atMs))
  }

  /** Fills expected in so many milliseconds from `#atMs`: what is faster than usual is expected to fade. */
  #ahead(spanMs: number): number {
    let count = this.usualRate * spanMs
    // Asked of every instrument at each choice, so no iterators.
    for (let index = 0; index < lasting.length; index++) {
      const memoryMs = memoriesMs[index] as number
      const beyond = (this.#rates[index] as number) - (this.#rates[index + 1] as number)
      count += (lasting[index] as number) * beyond * memoryMs * -Math.expm1(-spanMs / memoryMs)
    }
    return Math.max(0, count)
  }

  /** Takes a response; returns how many fills in it are new. */
  responded(newestFirst: readonly SeenFill[], serviceTime: TimeMs): number {
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
    if (!isFirst) this.#judgeEstimate(fresh, expected)
    const before = this.#firstRate(fresh, spanMs)
    for (const [index, memoryMs] of memoriesMs.entries()) {
      let sum = 0
      for (let fill = 0; fill < fresh; fill++)
        sum += Math.exp(Math.min(0, (newestFirst[fill] as SeenFill).ts - serviceTime) / memoryMs)
      const kept = Math.exp(-hiddenMs / memoryMs)
      const past = isFirst ? before : hiddenRate * (1 - kept) + (this.#seen[index] as number) * kept
      this.#seen[index] = sum / memoryMs + past * Math.exp(-spanMs / memoryMs)
    }
    for (let index = 0; index < memoriesMs.length; index++) this.#rates[index] = this.#seen[index] as number
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
    if (!(volume < maxSize)) return false
    const isUnchanged = before !== null && before.volumeText === volume24h && before.lastPrice === lastPrice
    const beforeTs = before?.ts ?? ts
    if (isUnchanged) before.ts = ts
    else this.#ticker = { ts, volume, lastPrice, volumeText: volume24h }
    if (before === null || ts <= this.#responseAt || this.#responseAt === -Infinity) return false
    const spanMs = ts - this.#atMs
    if (spanMs <= 0) return false
    const count = isUnchanged ? 0 : this.#countOf(before, volume, ts, spanMs)
    this.#unseen += count
    for (const [index, memoryMs] of memoriesMs.entries()) {
      const kept = Math.exp(-spanMs / memoryMs)
      this.#rates[index] = (count / spanMs) * (1 - kept) + (this.#rates[index] as number) * kept
    }
    this.#atMs = ts
    return isUnchanged && beforeTs >= this.#responseAt
  }

  #countOf(before: { ts: TimeMs; volume: number }, volume: number, ts: TimeMs, spanMs: number): number {
    const expected = this.#ahead(spanMs)
    if (this.#sizeCount === 0) {
      // Nobody knows how many: one at least.
      this.#claimed++
      return Math.max(expected, this.trust)
    }
    const meanSize = this.#sizeSum / this.#sizeCount
    const shown = before.ts < this.#responseAt ? this.#shownSince(before.ts, meanSize) : 0
    const dayRate = Math.min(volume / dayMs / meanSize, this.#seen[usual] as number)
    const rolledOut = dayRate * (ts - before.ts)
    const net = (volume - before.volume - shown) / meanSize + rolledOut
    const variance = 1 + clusterVariance * expected + rateVariance * expected * expected
    const gain = variance / (variance + rollVariance * rolledOut)
    if (net <= 0) return expected * (1 - maxTakenOff * gain)
    const claim = Math.min(maxClaimed, net)
    this.#claimed += claim
    return Math.max(0, expected + gain * (this.trust * claim - expected))
  }

  /** The volume of the fills that responses showed after `ts`. */
  #shownSince(ts: TimeMs, meanSize: number): number {
    let sum = 0
    for (let index = 0; index < this.#pageCount && (this.#page?.[index] as number) > ts; index++)
      sum += this.#page?.[fillsPerPage + index] as number
    // Before the oldest fill of a full page others were shown, by responses before.
    if (ts < this.#pageFrom) sum += (this.#pageFrom - ts) * (this.#seen[minute] as number) * meanSize
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
      this.#claimedBefore = claimedStart
      this.#borneOut = borneOutStart
    } else if (claimed > 0) {
      const limit = this.#sizeCount === 0 ? contradictedWithoutSizes : contradicted
      const isContradicted = fresh === 0 && claimed >= limit
      this.#claimedBefore = this.#claimedBefore * recordKept + claimed
      this.#borneOut = this.#borneOut * (isContradicted ? contradictedKept : recordKept) + (isCut ? claimed : fresh)
    }
  }

  #judgeEstimate(fresh: number, expected: number): void {
    if (expected <= 1) return
    const relative = (fresh - expected) / expected
    this.#errorSum = this.#errorSum * errorKept + Math.min(maxError, relative * relative)
    this.#errorCount = this.#errorCount * errorKept + 1
  }

  #learnSizes(newestFirst: readonly SeenFill[], fresh: number): void {
    for (let index = 0; index < fresh; index++) {
      const size = Number((newestFirst[index] as SeenFill).size)
      // One that no market has would be the mean of all for ever.
      if (!(size > 0 && size < maxSize)) continue
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
    const byPage = count / Math.max(spanMs, minSpanMs)
    if (this.#ticker === null || this.#sizeCount === 0) return byPage
    return Math.min(byPage, this.#ticker.volume / (this.#sizeSum / this.#sizeCount) / dayMs)
  }

  #keepPage(newestFirst: readonly SeenFill[], oldest: TimeMs): void {
    this.#page ??= new Float64Array(2 * fillsPerPage)
    this.#pageCount = Math.min(fillsPerPage, newestFirst.length)
    for (let index = 0; index < this.#pageCount; index++) {
      const fill = newestFirst[index] as SeenFill
      this.#page[index] = fill.ts
      this.#page[fillsPerPage + index] = Number(fill.size)
    }
    this.#pageFrom = newestFirst.length < fillsPerPage ? -Infinity : oldest
  }
}
