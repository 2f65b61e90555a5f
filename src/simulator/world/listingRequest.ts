import { z } from 'zod'
import { categories } from '../../market/category.js'
import type { ListingRequest } from './listing.js'

const time = z.number().int()
const timeOrNever = time.nullable().optional()
const count = z.number().int().min(0).optional()
const fields = z.record(z.string(), z.string().nullable()).optional()

type OrUndefined<Type> = { [Name in keyof Type]: Type[Name] | undefined }

/** An instrument as another process may ask for it: what `ListingRequest` says, checked. */
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
