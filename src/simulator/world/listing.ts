import { z } from 'zod'
import { categories, type Category } from '../../market/category.js'
import type { TimeMs } from '../../market/values.js'
import type { Traits } from './traits.js'

export type SymbolType = 'crypto' | 'metal' | 'stock' | 'commodity'

/** Properties of an instrument in the simulated market: lifetime, precision, activity and unusual traits. */
export interface Listing extends Traits {
  readonly category: Category
  readonly symbol: string
  readonly baseCoin: string
  readonly quoteCoin: string
  /** Symbol type that the instrument's row reports. It can differ from the real type of the instrument. */
  readonly symbolType: SymbolType
  /** True for a stock, metal or commodity, as rows of futures show it. */
  readonly isRwa: boolean
  /** True for a stock token, which the service calls a Reality token. It has only market candles of six intervals. */
  readonly isReality: boolean
  readonly contract: 'perpetual' | 'delivery' | null
  /** Identifies the order book. A margin instrument has the book of its spot instrument. */
  readonly marketId: number
  readonly basePriceTicks: number
  readonly priceDecimals: number
  readonly sizeDecimals: number
  readonly meanSizeLots: number
  /** Number of further digits of every size in order books, to exceed what a double holds. */
  readonly extraSizeDigits: number
  readonly fillsPerHour: number
  readonly hasRpi: boolean
  /** Time from which the row is shown. */
  readonly announceTime: TimeMs
  /** Time from which the instrument trades. */
  readonly launchTime: TimeMs
  readonly limitOpenTime: TimeMs | null
  /** Time at which the instrument stops trading. */
  readonly offTime: TimeMs | null
  /** Time at which the row disappears. */
  readonly removeTime: TimeMs | null
  readonly deliveryTime: TimeMs | null
  /** Status from the launch on, such as `restrictedAPI`, unless other times change it; null for `online`. */
  readonly fixedStatus: string | null
}

export function isShown(listing: Listing, at: TimeMs): boolean {
  return at >= listing.announceTime && !isRemoved(listing, at)
}

export function isRemoved(listing: Listing, at: TimeMs): boolean {
  return listing.removeTime !== null && at >= listing.removeTime
}

export function isTrading(listing: Listing, at: TimeMs): boolean {
  return (
    at >= listing.launchTime &&
    (listing.offTime === null || at < listing.offTime) &&
    !isRemoved(listing, at) &&
    listing.fixedStatus !== 'offline'
  )
}

/** Returns the moments at which the instrument's row changes. */
export function changeTimes(listing: Listing): readonly TimeMs[] {
  const { announceTime, launchTime, limitOpenTime, offTime, removeTime, splits } = listing
  const times = [announceTime, launchTime, limitOpenTime, offTime, removeTime, ...splits.map(({ at }) => at)]
  return times.filter((time) => time !== null)
}

/** Fields of a custom instrument. Category and symbol are required; defaults fill in the others. */
export type ListingRequest = Pick<Listing, 'category' | 'symbol'> & Partial<Listing>

const time = z.number().int()
const timeOrNever = time.nullable().optional()
const count = z.number().int().min(0).optional()
const fields = z.record(z.string(), z.string().nullable()).optional()

type OrUndefined<Type> = { [Name in keyof Type]: Type[Name] | undefined }

/** Checks a `ListingRequest` that another process sends. */
export const listingRequestSchema: z.ZodType<OrUndefined<ListingRequest>> = z.strictObject({
  category: z.enum(categories),
  symbol: z.string().min(1),
  baseCoin: z.string().optional(),
  quoteCoin: z.string().optional(),
  symbolType: z.enum(['crypto', 'metal', 'stock', 'commodity']).optional(),
  isReality: z.boolean().optional(),
  isRwa: z.boolean().optional(),
  basePriceTicks: z.number().int().min(1).optional(),
  priceDecimals: count,
  sizeDecimals: count,
  fillsPerHour: z.number().min(0).optional(),
  hasRpi: z.boolean().optional(),
  announceTime: time.optional(),
  launchTime: time.optional(),
  limitOpenTime: timeOrNever,
  offTime: timeOrNever,
  removeTime: timeOrNever,
  fixedStatus: z.string().nullable().optional(),
  outsideTape: z
    .strictObject({ turnoverPerDay: z.number().min(0), hours: z.enum(['weekdays', 'always']) })
    .nullable()
    .optional(),
  platformTurnover: z
    .union([z.enum(['counted', 'empty', 'zero']), z.number()])
    .nullable()
    .optional(),
  fillHours: z.enum(['weekdays', 'always']).optional(),
  lastFillBefore: timeOrNever,
  book: z.enum(['live', 'empty', 'still', 'frozen']).optional(),
  candles: z.enum(['every', 'traded', 'none']).optional(),
  splits: z.array(z.strictObject({ at: time, factor: z.number().positive(), relists: z.boolean() })).optional(),
  failsWith: z.string().nullable().optional(),
  rowFields: fields,
  tickerFields: fields,
})
