import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Decimal, largest, placesOf, type ServiceMs, unitsAt } from '../market/values.js'

/** A change of a closed candle by the service that belongs to no restatement yet. */
export interface OpenRevision {
  readonly id: number
  readonly openTime: ServiceMs
  readonly old: RevisedValues
  readonly new: RevisedValues
}

interface RevisedValues {
  readonly prices: readonly Decimal[]
  readonly volume: Decimal
}

export interface Fraction {
  readonly numerator: bigint
  readonly denominator: bigint
}

interface FoundFactor {
  /** Prices were multiplied by this fraction, and volumes divided by it. In lowest terms. */
  readonly factor: Fraction
  /** Revisions that the factor explains. */
  readonly explained: readonly OpenRevision[]
}

/** Fewer changed candles than this may be unrelated changes. */
const minCandles = 5
/** The smallest share of the changed candles that one factor must explain. */
const minShare = 0.8
const seeds = 5
/** Comparing this many revisions takes a few milliseconds at most. */
const revisionsPerTurn = 64

/**
 * Finds the factor by which prices were multiplied and volumes divided in nearly all revisions. Null if there is none.
 * New prices are rounded to their last place, so each pair of prices allows a range of factors. The factor is the
 * simplest fraction that all ranges allow. All calculations use whole numbers. Others get turns meanwhile.
 */
export async function commonFactor(revisions: readonly OpenRevision[]): Promise<FoundFactor | null> {
  if (revisions.length < minCandles) return null
  const scale = scaleOf(revisions)
  const step = Math.max(1, Math.floor(revisions.length / seeds))
  let best: FoundFactor | null = null
  for (let seed = 0; seed < revisions.length; seed += step) {
    if (best?.explained.length === revisions.length) break
    const found = await factorFrom(revisions, seed, scale)
    if (found !== null && (best === null || found.explained.length > best.explained.length)) best = found
  }
  if (best === null || best.explained.length < Math.max(minCandles, minShare * revisions.length)) return null
  return best
}

/** Resolves to the revisions that a known factor explains. Others get turns meanwhile. */
export async function explainedBy(revisions: readonly OpenRevision[], factor: Fraction): Promise<OpenRevision[]> {
  const scale = scaleOf(revisions)
  const explained: OpenRevision[] = []
  for (const [index, revision] of revisions.entries()) {
    if (index % revisionsPerTurn === 0) await nextTurn()
    const bounds = boundsOf(revision, scale)
    const isWithin = bounds !== null && !isLess(factor, bounds.low) && !isLess(bounds.high, factor)
    if (isWithin && fitsVolume(revision, factor)) explained.push(revision)
  }
  return explained
}

/** Returns the places that new prices are rounded to. */
function scaleOf(revisions: readonly OpenRevision[]): number {
  return largest(revisions.flatMap(({ new: { prices } }) => prices.map(placesOf)))
}

interface Bounds {
  readonly low: Fraction
  readonly high: Fraction
}

async function factorFrom(
  revisions: readonly OpenRevision[],
  seed: number,
  scale: number,
): Promise<FoundFactor | null> {
  const first = revisions[seed]
  let bounds = first === undefined ? null : boundsOf(first, scale)
  if (bounds === null) return null
  const explained: OpenRevision[] = []
  for (const [index, revision] of revisions.entries()) {
    if (index % revisionsPerTurn === 0) await nextTurn()
    const own = boundsOf(revision, scale)
    const both: Bounds | null = own === null ? null : overlap(bounds, own)
    if (both === null) continue
    bounds = both
    explained.push(revision)
  }
  // A range that allows the factor 1 is no restatement: the prices may be unchanged.
  if (
    !isLess({ numerator: 1n, denominator: 1n }, bounds.low) &&
    !isLess(bounds.high, { numerator: 1n, denominator: 1n })
  )
    return null
  const factor = simplestBetween(bounds.low, bounds.high)
  return { factor, explained: explained.filter((revision) => fitsVolume(revision, factor)) }
}

/** Returns the factors that all prices of a candle allow: (new ± a unit of the last place) / old. Null if none. */
function boundsOf({ old, new: now }: OpenRevision, scale: number): Bounds | null {
  let bounds: Bounds | null = null
  for (const [index, price] of old.prices.entries()) {
    const before = unitsAt(price, Math.max(scale, placesOf(price)))
    const unit = 10n ** BigInt(Math.max(0, placesOf(price) - scale))
    const after = unitsAt(now.prices[index] ?? '0', Math.max(scale, placesOf(price)))
    if (before <= 0n || after <= 0n) return null
    const low = after > unit ? after - unit : 1n
    const own = {
      low: { numerator: low, denominator: before },
      high: { numerator: after + unit, denominator: before },
    }
    bounds = bounds === null ? own : overlap(bounds, own)
    if (bounds === null) return null
  }
  return bounds
}

/**
 * Returns true if the volume was divided by the factor, or stayed the same as without trades. Rounding adds up over
 * fills, so small differences are allowed for.
 */
function fitsVolume({ old, new: now }: OpenRevision, { numerator, denominator }: Fraction): boolean {
  const scale = Math.max(placesOf(old.volume), placesOf(now.volume))
  const before = unitsAt(old.volume, scale)
  const after = unitsAt(now.volume, scale)
  if (before === after) return true
  const unit = 10n ** BigInt(scale - Math.min(placesOf(old.volume), placesOf(now.volume)))
  const difference = after * numerator - before * denominator
  const rounding = (before * denominator) / 100n
  const byUnit = unit * (numerator + denominator)
  const tolerance = rounding > byUnit ? rounding : byUnit
  return difference <= tolerance && -difference <= tolerance
}

function overlap(a: Bounds, b: Bounds): Bounds | null {
  const low = isLess(a.low, b.low) ? b.low : a.low
  const high = isLess(a.high, b.high) ? a.high : b.high
  return isLess(high, low) ? null : { low, high }
}

function isLess(a: Fraction, b: Fraction): boolean {
  return a.numerator * b.denominator < b.numerator * a.denominator
}

/** Returns the fraction with the smallest denominator in a closed range of positive numbers. */
export function simplestBetween(low: Fraction, high: Fraction): Fraction {
  const whole = low.numerator / low.denominator
  if (whole * low.denominator === low.numerator) return { numerator: whole, denominator: 1n }
  if (whole < high.numerator / high.denominator) return { numerator: whole + 1n, denominator: 1n }
  // Both bounds have the same whole part, so the search goes on with the reciprocals of their fractional parts.
  const rest = simplestBetween(
    { numerator: high.denominator, denominator: high.numerator - whole * high.denominator },
    { numerator: low.denominator, denominator: low.numerator - whole * low.denominator },
  )
  return { numerator: whole * rest.numerator + rest.denominator, denominator: rest.numerator }
}
