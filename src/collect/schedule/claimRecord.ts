import { fillsPerPage } from '../../market/rows.js'

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
 * A record of how many of the fills that an instrument's tickers claimed were shown by responses. It soon discredits
 * tickers that tell of trades elsewhere.
 */
export class ClaimRecord {
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
