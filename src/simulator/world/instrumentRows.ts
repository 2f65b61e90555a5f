import { dayMs, type TimeMs } from '../../market/values.js'
import { fundingHours } from './funding.js'
import type { Quirks } from './quirks.js'
import { fixed, mix, mixText } from './hash.js'
import type { Listing } from './listing.js'
import { withFields } from './traits.js'

/** An instrument as the operation gives it. An absent field is one of the spellings of "not set". */
export type InstrumentRow = Readonly<Record<string, string | null>>

/** A row in the making, with the instrument's draws. */
class RowMaker {
  readonly row: Record<string, string | null> = {}
  readonly key: number

  constructor(
    readonly listing: Listing,
    private readonly quirks: Quirks,
  ) {
    this.key = mixText(listing.marketId, listing.category)
  }

  /** Returns true for one instrument of `count`. */
  isOneOf(what: number, count: number): boolean {
    return mix(this.key, what) % count === 0
  }

  set(fields: Readonly<Record<string, string>>): void {
    Object.assign(this.row, fields)
  }

  /** Sets a field, or a spelling of "not set". Fields with `wide` were seen in all five spellings. */
  setOr(name: string, value: string | number | null, wide = false): void {
    const spellings = wide ? ['', '0', '-1', null, undefined] : ['', null, undefined]
    const notSet = this.quirks.notSetSpellings === 'empty' ? '' : spellings[mixText(this.key, name) % spellings.length]
    const shown = value === null ? notSet : String(value)
    if (shown !== undefined) this.row[name] = shown
  }
}

/** Returns an instrument as the operation gives it. */
export function instrumentRow(listing: Listing, at: TimeMs, quirks: Quirks): InstrumentRow {
  const maker = new RowMaker(listing, quirks)
  const isFuture = listing.category.endsWith('FUTURES')
  const isMargin = listing.category === 'MARGIN'
  const isSpot = listing.category === 'SPOT'
  setCommon(maker, isFuture, at)
  if (isFuture || (isSpot && quirks.futuresFieldsOnSpot)) setTrading(maker, isFuture)
  if (isFuture) setFuture(maker, at, quirks)
  if (isFuture || isMargin)
    maker.set({ maxLeverage: String([5, 10, 20, 50, 75, 125][mix(maker.key, 7) % 6]), maxPositionNum: '150' })
  if (isMargin) setMargin(maker)
  if (isSpot) setSpot(maker, quirks)
  if (quirks.unknownNewFields && maker.isOneOf(10, 6)) maker.set({ tradingSchedule: '24/7' })
  return withFields(maker.row, listing.rowFields)
}

function setCommon(maker: RowMaker, isFuture: boolean, at: TimeMs): void {
  const { listing } = maker
  maker.set({
    category: listing.category,
    symbol: listing.symbol,
    baseCoin: listing.baseCoin,
    quoteCoin: listing.quoteCoin,
    status: statusOf(listing, at),
    symbolType: listing.symbolType,
    buyLimitPriceRatio: isFuture ? '0.05' : '0.1',
    sellLimitPriceRatio: isFuture ? '0.05' : '0.1',
    pricePrecision: String(listing.priceDecimals),
    quantityPrecision: String(listing.sizeDecimals),
  })
  maker.setOr('quotePrecision', maker.isOneOf(2, 11) ? null : Math.min(8, listing.priceDecimals + 2), true)
  maker.set({ minOrderAmount: listing.category === 'COIN-FUTURES' || !maker.isOneOf(3, 2) ? '1' : '5' })
  maker.setOr('maxSymbolOrderNum', null)
  maker.set({ maxProductOrderNum: isFuture ? '400' : '500' })
  // Symbols listed long ago have no launch time on the live service.
  const isOld = maker.isOneOf(4, 13) && listing.removeTime === null && !listing.isReality
  maker.setOr('launchTime', isOld ? null : shownLaunchTime(listing, at), true)
}

function setTrading(maker: RowMaker, isFuture: boolean): void {
  const { sizeDecimals, meanSizeLots, offTime, limitOpenTime } = maker.listing
  maker.set({
    makerFeeRate: isFuture ? '0.0002' : '0.001',
    takerFeeRate: isFuture ? '0.0006' : '0.001',
    minOrderQty: fixed(1, sizeDecimals),
  })
  maker.setOr('maxOrderQty', maker.isOneOf(5, 5) ? null : fixed(meanSizeLots * 1_000, sizeDecimals), true)
  maker.setOr('offTime', offTime, true)
  maker.setOr('limitOpenTime', limitOpenTime, true)
}

function setFuture(maker: RowMaker, at: TimeMs, quirks: Quirks): void {
  const { listing } = maker
  const { contract, deliveryTime, sizeDecimals } = listing
  maker.set({
    ...(contract !== null && { type: contract }),
    feeRateUpRatio: '0.005',
    openCostUpRatio: '0.01',
    priceMultiplier: fixed(1, listing.priceDecimals),
    quantityMultiplier: fixed(1, sizeDecimals),
    maxMarketOrderQty: fixed(listing.meanSizeLots * 400, sizeDecimals),
    fundInterval: String(fundingHours(listing)),
    minLeverage: '1',
  })
  maker.setOr('maintainTime', null, true)
  if (quirks.futuresFieldsOnSpot) maker.set({ isRwa: listing.isRwa ? 'YES' : 'NO' })
  if (contract === 'delivery' && deliveryTime !== null) {
    maker.set({
      deliveryTime: String(deliveryTime),
      deliveryStartTime: String(deliveryTime - 600_000),
      deliveryPeriod: deliveryTime - at < 91 * dayMs ? 'this_quarter' : 'next_quarter',
    })
  } else if (quirks.notSetSpellings === 'mixed') {
    for (const name of ['deliveryTime', 'deliveryStartTime', 'deliveryPeriod']) maker.setOr(name, null)
  }
}

function setMargin(maker: RowMaker): void {
  maker.set({
    isIsolatedBaseBorrowable: maker.isOneOf(8, 2) ? 'YES' : 'NO',
    isIsolatedQuotedBorrowable: 'YES',
    warningRiskRatio: '0.8',
    liquidationRiskRatio: '1',
    maxCrossedLeverage: '3',
    maxIsolatedLeverage: '10',
    userMinBorrow: '0.00000001',
  })
}

function setSpot(maker: RowMaker, quirks: Quirks): void {
  const { isRwa, isReality } = maker.listing
  if (!quirks.futuresFieldsOnSpot) maker.set({ isRwa: isRwa ? 'YES' : 'NO' })
  maker.set({ isReality: isReality ? 'yes' : 'no', maxMarketOrderAmount: '200000' })
  const isInArea = maker.isOneOf(9, 17)
  if (!quirks.lowerCaseAreaSymbol) maker.set(isInArea ? { areaSymbol: 'YES' } : {})
  // Rows of crypto leave out `areaSymbol`.
  else if (isReality) maker.set({ areaSymbol: isInArea ? 'yes' : 'no' })
}

function statusOf(listing: Listing, at: TimeMs): string {
  if (at < listing.launchTime) return 'listed'
  if (listing.offTime !== null && at >= listing.offTime) return 'offline'
  if (listing.limitOpenTime !== null && at >= listing.limitOpenTime) return 'limit_open'
  return listing.fixedStatus ?? 'online'
}

/** Returns the launch time that the row shows: that of the last listing, if there were several. */
function shownLaunchTime({ launchTime, splits }: Listing, at: TimeMs): TimeMs {
  return splits.findLast((split) => split.relists && split.at <= at)?.at ?? launchTime
}
