import type { Category } from './category.js'
import type { Extra, ValueOfKind } from './values.js'

/**
 * Every specified field of an instrument besides its key, by the kind of value it holds.
 * The format of the wire, storage and documentation all read this one table.
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

/** An instrument as the service describes it now. `null` is "not set", in whichever way the service spelled it. */
export type Instrument = {
  readonly category: Category
  readonly symbol: string
  readonly extra: Extra
} & { readonly [Field in InstrumentField]: ValueOfKind[(typeof instrumentFields)[Field]] | null }

/**
 * The asset that an instrument stands for. A tokenised stock's ticker follows a stock exchange elsewhere, and little of
 * the stock trades here. An RWA perpetual is a futures contract on a real-world asset, and an ordinary market.
 */
export const instrumentKinds = [
  'crypto',
  'tokenised_stock',
  'rwa_perpetual',
  'rwa_token',
  'stock',
  'metal',
  'commodity',
  'other',
] as const
export type InstrumentKind = (typeof instrumentKinds)[number]

/** The fields of an instrument that tell its kind, as the service set them; null if it did not. */
interface KindSigns {
  readonly category: Category
  readonly isReality: boolean | null
  readonly isRwa: boolean | null
  readonly symbolType: string | null
}

/**
 * Returns the kind of an instrument. The flags go before `symbolType`, which has called stocks crypto. Without a flag,
 * `symbolType` decides. An unknown value of it gives `other`.
 */
export function kindOf({ category, isReality, isRwa, symbolType }: KindSigns): InstrumentKind {
  if (isReality === true) return 'tokenised_stock'
  if (isRwa === true && category.endsWith('FUTURES')) return 'rwa_perpetual'
  const type = symbolType?.toLowerCase() ?? 'crypto'
  if (type === 'metal' || type === 'stock' || type === 'commodity') return type
  if (isRwa === true) return 'rwa_token'
  return type === 'crypto' ? 'crypto' : 'other'
}

/**
 * Returns a test for symbols that match one of the globs, in any case: `btc*` matches BTCUSDT. No globs mean any symbol,
 * an empty list none. In a glob `*` stands for any characters or none, and `?` for one. All others stand for themselves.
 */
export function symbolMatcher(globs: readonly string[] | undefined): (symbol: string) => boolean {
  // Lists may have tens of thousands of symbols, and most selections name none.
  if (globs === undefined || globs.includes('*')) return () => true
  if (globs.length === 0) return () => false
  const patterns = globs.map(charactersOf)
  return (symbol) => {
    const characters = charactersOf(symbol)
    return patterns.some((pattern) => matches(pattern, characters))
  }
}

/** Returns the globs that match none of the symbols. */
export function unmatched(globs: readonly string[], symbols: readonly string[]): string[] {
  return globs.filter((glob) => !symbols.some(symbolMatcher([glob])))
}

/** Returns true if a glob may match several symbols. */
export function hasWildcard(glob: string): boolean {
  return /[*?]/.test(glob)
}

/** Changes the case of each character by itself, because that of a whole text depends on its neighbours. */
function charactersOf(text: string): readonly string[] {
  return Array.from(text, (character) => character.toLowerCase())
}

/** Compares character by character: where the rest does not match, the last `*` takes one character more. */
function matches(pattern: readonly string[], symbol: readonly string[]): boolean {
  let [at, inSymbol] = [0, 0]
  let [star, afterStar] = [-1, 0]
  while (inSymbol < symbol.length) {
    const wanted = pattern[at]
    if (wanted === '*') [star, afterStar, at] = [at, inSymbol, at + 1]
    else if (wanted === '?' || wanted === symbol[inSymbol]) [at, inSymbol] = [at + 1, inSymbol + 1]
    else if (star >= 0) [at, afterStar, inSymbol] = [star + 1, afterStar + 1, afterStar + 1]
    else return false
  }
  return pattern.slice(at).every((wanted) => wanted === '*')
}
