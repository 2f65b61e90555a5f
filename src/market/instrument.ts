import type { Category } from './category.js'
import type { Decimal, Extra, TimeMs } from './values.js'

/**
 * Every specified field of an instrument besides its key, by the kind of value it holds.
 * Payload validation, normalization, storage and documentation all read this one table.
 */
export const instrumentFields = {
  baseCoin: 'text',
  quoteCoin: 'text',
  status: 'text',
  type: 'text',
  symbolType: 'text',
  isRwa: 'boolean',
  isReality: 'boolean',
  areaSymbol: 'boolean',
  pricePrecision: 'integer',
  quantityPrecision: 'integer',
  quotePrecision: 'integer',
  priceMultiplier: 'decimal',
  quantityMultiplier: 'decimal',
  minOrderQty: 'decimal',
  maxOrderQty: 'decimal',
  maxMarketOrderQty: 'decimal',
  minOrderAmount: 'decimal',
  maxMarketOrderAmount: 'decimal',
  maxSymbolOrderNum: 'integer',
  maxProductOrderNum: 'integer',
  maxPositionNum: 'integer',
  buyLimitPriceRatio: 'decimal',
  sellLimitPriceRatio: 'decimal',
  feeRateUpRatio: 'decimal',
  makerFeeRate: 'decimal',
  takerFeeRate: 'decimal',
  openCostUpRatio: 'decimal',
  fundInterval: 'integer',
  minLeverage: 'decimal',
  maxLeverage: 'decimal',
  maxCrossedLeverage: 'decimal',
  maxIsolatedLeverage: 'decimal',
  warningRiskRatio: 'decimal',
  liquidationRiskRatio: 'decimal',
  userMinBorrow: 'decimal',
  isIsolatedBaseBorrowable: 'boolean',
  isIsolatedQuotedBorrowable: 'boolean',
  launchTime: 'time',
  offTime: 'time',
  limitOpenTime: 'time',
  maintainTime: 'time',
  deliveryTime: 'time',
  deliveryStartTime: 'time',
  deliveryPeriod: 'text',
} as const satisfies Record<string, InstrumentFieldKind>

export type InstrumentFieldKind = 'text' | 'boolean' | 'integer' | 'decimal' | 'time'
export type InstrumentField = keyof typeof instrumentFields

interface ValueOfKind {
  text: string
  boolean: boolean
  integer: number
  decimal: Decimal
  time: TimeMs
}

/** An instrument as the service describes it now. `null` is "not set", in whichever way the service spelled it. */
export type Instrument = {
  readonly category: Category
  readonly symbol: string
  readonly extra: Extra
} & { readonly [Field in InstrumentField]: ValueOfKind[(typeof instrumentFields)[Field]] | null }
