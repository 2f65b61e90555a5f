import { fillsPerPage, type TradeSign } from '../../market/rows.js'
import { dayMs, type TimeMs } from '../../market/values.js'

/** A fill of a response, with the time of the service's clock. */
export interface SeenFill {
  readonly ts: TimeMs
  readonly size: string
}

/** Rates are averaged over these times: those of a sweep, a burst, a busy minute and the usual flow. */
const memoriesMs = [400, 2_000, 20_000, 300_000] as const
const [minute, usual] = [2, 3]
/** Share of the difference between a faster average and the next slower one that is expected to last at first. */
const lasting = [0.35, 0.4, 0.7] as const
/** Factor for the fills expected since the newest ticker, because a burst may have begun. */
const unknownWeight = 1.15
/** Number of fills over which the mean size is averaged. */
const sizeMemory = 400
/** Variance of an expected number of fills, in proportion to it, because fills come in clusters. */
const clusterVariance = 30
/** Variance of an expected number of fills, in proportion to its square, because the rate is not known. */
const rateVariance = 6
/** Variance of the number of fills that drop out of the day, in proportion to it. They come in clusters, too. */
const rollVariance = 5
/** Largest share of the expected number that is taken off when more dropped out of the day than was traded. */
const maxTakenOff = 0.3
/** Sizes beyond this are no number of coins, and their sums could become infinite. */
const maxSize = 1e30
/** Shortest span assumed for a first page. A page that spans a moment is a burst, not the usual flow. */
const minSpanMs = 5_000
/** Largest number of fills that one ticker can claim for an instrument. Larger numbers would change nothing. */
const maxClaimed = 1.5 * fillsPerPage
/** Usual squared relative error of an estimate. Estimates of one fill or less are not judged. */
const usualError = 0.7
/** Number of responses that the usual error counts for at first. */
const usualErrorCount = 10
/** Share of the record of errors that is kept at each response. */
const errorKept = 0.97
/** Largest squared relative error that is counted for one response. */
const maxError = 25
export const maxUnevenness = 4
/** Number of claimed fills with which the record of the tickers' claims begins. */
const claimedStart = 50
/**
 * Number of claimed fills that responses have borne out, at the beginning of this record. The trust begins with the
 * ratio of the two, 0.8. It is below 1, because the mean of recent sizes is usually too small. A volume then suggests
 * more fills than there are.
 */
const borneOutStart = 40
/** Share of the record of claims that is kept at each response. */
const recordKept = 0.9
/**
 * A response without a fill contradicts tickers that claimed at least this many. The number is so large, because trades
 * that drop out of the day look like claims.
 */
const contradicted = 50
/** Without sizes, claims of this many contradict. Tickers then tell of trades elsewhere. */
const contradictedWithoutSizes = 3
/** Share of the record of claims that is kept after a contradiction. */
const contradictedKept = 0.3
/** A record with a trust below this is forgotten as soon as a response brings a fill. */
const badRecord = 0.05

/**
 * Estimates the number of fills of one instrument that no response has shown, and the error of such estimates.
 *
 * Responses give the exact times of fills. Tickers come for all instruments at once and give the volume between two
 * moments. A full page is a count cut off at 100: the tickers' claims are then taken as borne out. A 24h volume rolls,
 * so yesterday's trades are added to its differences. They are added at the instrument's usual rate where that is below
 * the average of the day: a few huge trades make up a large part of that average.
 *
 * A rise divided by the mean size of a fill is a count, and is believed almost fully. A fall says only that a huge
 * trade has dropped out of the day, and little about current trades: the expected number is nearly kept. A record is
 * kept of how much of the claims the responses have shown. It soon discredits tickers that tell of trades elsewhere.
 * Times are those of the service, rates are fills per millisecond.
 */
export class FillEstimate {
  /** Average rates over `memoriesMs`, at the last response. */
  readonly #seen = [0, 0, 0, 0]
  /** Average rates over `memoriesMs` at `#atMs`, updated by the tickers since the last response. */
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
  /** Times, then sizes, of the fills of the last response. They tell which fills the ticker before it had counted. */
  #page: Float64Array | null = null
  #pageCount = 0
  #pageFrom: TimeMs = Infinity
  #errorSum = 0
  #errorCount = 0
  #assumedRate: number | null = null

  /** Takes a rate recorded by an earlier run. It holds until the first response. */
  assume(rate: number): void {
    if (this.#responseAt > -Infinity) return
    this.#assumedRate = rate
    this.#rates.fill(rate)
  }

  /** Rank for the first request; higher goes first. A recorded rate ranks above any turnover of a ticker. */
  get firstRank(): number {
    if (this.#assumedRate !== null) return 1e12 * (1 + this.#assumedRate * 1_000)
    if (this.#ticker === null) return 0
    return this.#ticker.volume * Number(this.#ticker.lastPrice) || 0
  }

  /** When the service gave the last response, on its own clock; -Infinity before the first. */
  get respondedAt(): TimeMs {
    return this.#responseAt
  }

  get usualRate(): number {
    return this.#rates[usual] as number
  }

  /** Rate expected over the next second. */
  get rate(): number {
    return Math.max(0, this.#ahead(1_000)) / 1_000
  }

  /** Share of the tickers' claims that responses have shown, at most 1.5. */
  get trust(): number {
    return Math.min(1.5, this.#borneOut / this.#claimedBefore)
  }

  /** Error of this instrument's estimates relative to the usual error: about 1, more where fills come in bursts. */
  get unevenness(): number {
    const error = (this.#errorSum + usualError * usualErrorCount) / (this.#errorCount + usualErrorCount)
    return Math.min(maxUnevenness, error / usualError)
  }

  /** Number of fills by `at` that the last response did not show; 0 before the first response. */
  unseen(at: TimeMs): number {
    if (this.#responseAt === -Infinity) return 0
    return this.#unseen + unknownWeight * this.#ahead(Math.max(0, at - this.#atMs))
  }

  /** Fills expected in the `spanMs` after `#atMs`. A rate above the usual one is expected to fade. */
  #ahead(spanMs: number): number {
    let count = this.usualRate * spanMs
    // This runs for every instrument at each choice, so it avoids iterators.
    for (let index = 0; index < lasting.length; index++) {
      const memoryMs = memoriesMs[index] as number
      const beyond = (this.#rates[index] as number) - (this.#rates[index + 1] as number)
      count += (lasting[index] as number) * beyond * memoryMs * -Math.expm1(-spanMs / memoryMs)
    }
    return Math.max(0, count)
  }

  /** Takes a response; returns the number of new fills in it. */
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
    // Fills hidden by a full page are taken to have come at the expected rate. If the rest of the expected number were
    // taken instead, an estimate that is too high would feed itself.
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

  /** Takes a ticker. Returns true if nothing was traded since the previous one, and no response is newer than that. */
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
      // Without sizes the number is unknown, and a claim counts for one.
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

  /** Volume of the fills after `ts` that responses have shown. */
  #shownSince(ts: TimeMs, meanSize: number): number {
    let sum = 0
    for (let index = 0; index < this.#pageCount && (this.#page?.[index] as number) > ts; index++)
      sum += this.#page?.[fillsPerPage + index] as number
    // Earlier responses have shown fills before the oldest one of a full page.
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
      // An impossible size would dominate the mean for ever.
      if (!(size > 0 && size < maxSize)) continue
      this.#sizeSum += size
      this.#sizeCount++
    }
    if (this.#sizeCount <= sizeMemory) return
    this.#sizeSum *= sizeMemory / this.#sizeCount
    this.#sizeCount = sizeMemory
  }

  /** Rate before the first response: the recorded one, else that of the page or that of the ticker's day, if lower. */
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
