import { dayMs, type TimeMs } from '../../market/values.js'
import { fundingHours } from './funding.js'
import type { Quirks } from './quirks.js'
import { fixed, mix, mixText } from './hash.js'
import { type Listing, shownLaunchTime, statusOf } from './listing.js'
import { withFields } from './traits.js'

/** An instrument as the operation gives it. An absent field is one of the spellings of "not set". */
export type InstrumentRow = Readonly<Record<string, string | null>>

export function instrumentRow(listing: Listing, at: TimeMs, quirks: Quirks): InstrumentRow {
  const key = mixText(listing.marketId, listing.category)
  const futures = listing.category.endsWith('FUTURES')
  const margin = listing.category === 'MARGIN'
  const spot = listing.category === 'SPOT'
  const row: Record<string, string | null> = {}

  const set = (name: string, value: string | null | undefined): void => {
    if (value !== undefined) row[name] = value
  }
  /** Sets a field to a spelling of "not set". Fields with `wide` were seen in all five spellings. */
  const notSet = (name: string, wide = false): void => {
    if (quirks.notSetSpellings === 'empty') return set(name, '')
    const spellings = wide ? ['', '0', '-1', null, undefined] : ['', null, undefined]
    set(name, spellings[mixText(key, name) % spellings.length])
  }
  const setOr = (name: string, value: string | null, wide = false): void =>
    value === null ? notSet(name, wide) : set(name, value)
  const time = (at: TimeMs | null): string | null => (at === null ? null : String(at))

  set('category', listing.category)
  set('symbol', listing.symbol)
  set('baseCoin', listing.baseCoin)
  set('quoteCoin', listing.quoteCoin)
  set('status', statusOf(listing, at))
  set('symbolType', listing.symbolType)
  set('buyLimitPriceRatio', futures ? '0.05' : '0.1')
  set('sellLimitPriceRatio', futures ? '0.05' : '0.1')
  set('pricePrecision', String(listing.priceDecimals))
  set('quantityPrecision', String(listing.sizeDecimals))
  if (mix(key, 2) % 11 === 0) notSet('quotePrecision', true)
  else set('quotePrecision', String(Math.min(8, listing.priceDecimals + 2)))
  set('minOrderAmount', listing.category === 'COIN-FUTURES' ? '1' : mix(key, 3) % 2 === 0 ? '5' : '1')
  notSet('maxSymbolOrderNum')
  set('maxProductOrderNum', futures ? '400' : '500')
  // Symbols listed long ago have no launch time on the live service.
  setOr(
    'launchTime',
    mix(key, 4) % 13 === 0 && listing.removeTime === null && !listing.isReality
      ? null
      : time(shownLaunchTime(listing, at)),
    true,
  )

  if (futures || (spot && quirks.futuresFieldsOnSpot)) {
    set('makerFeeRate', futures ? '0.0002' : '0.001')
    set('takerFeeRate', futures ? '0.0006' : '0.001')
    set('minOrderQty', fixed(1, listing.sizeDecimals))
    if (mix(key, 5) % 5 === 0) notSet('maxOrderQty', true)
    else set('maxOrderQty', fixed(listing.meanSizeLots * 1_000, listing.sizeDecimals))
    setOr('offTime', time(listing.offTime), true)
    setOr('limitOpenTime', time(listing.limitOpenTime), true)
  }
  if (futures) {
    set('type', listing.contract)
    set('feeRateUpRatio', '0.005')
    set('openCostUpRatio', '0.01')
    set('priceMultiplier', fixed(1, listing.priceDecimals))
    set('quantityMultiplier', fixed(1, listing.sizeDecimals))
    set('maxMarketOrderQty', fixed(listing.meanSizeLots * 400, listing.sizeDecimals))
    set('fundInterval', String(fundingHours(listing)))
    set('minLeverage', '1')
    notSet('maintainTime', true)
    if (quirks.futuresFieldsOnSpot) set('isRwa', listing.isRwa ? 'YES' : 'NO')
    if (listing.contract === 'delivery' && listing.deliveryTime !== null) {
      set('deliveryTime', time(listing.deliveryTime))
      set('deliveryStartTime', time(listing.deliveryTime - 600_000))
      set('deliveryPeriod', listing.deliveryTime - at < 91 * dayMs ? 'this_quarter' : 'next_quarter')
    } else if (quirks.notSetSpellings === 'mixed') {
      for (const name of ['deliveryTime', 'deliveryStartTime', 'deliveryPeriod']) notSet(name)
    }
  }
  if (futures || margin) {
    set('maxLeverage', String([5, 10, 20, 50, 75, 125][mix(key, 7) % 6]))
    set('maxPositionNum', '150')
  }
  if (margin) {
    set('isIsolatedBaseBorrowable', mix(key, 8) % 2 === 0 ? 'YES' : 'NO')
    set('isIsolatedQuotedBorrowable', 'YES')
    set('warningRiskRatio', '0.8')
    set('liquidationRiskRatio', '1')
    set('maxCrossedLeverage', '3')
    set('maxIsolatedLeverage', '10')
    set('userMinBorrow', '0.00000001')
  }
  if (spot) {
    if (!quirks.futuresFieldsOnSpot) set('isRwa', listing.isRwa ? 'YES' : 'NO')
    set('isReality', listing.isReality ? 'yes' : 'no')
    set('maxMarketOrderAmount', '200000')
    const inArea = mix(key, 9) % 17 === 0
    if (!quirks.lowerCaseAreaSymbol) set('areaSymbol', inArea ? 'YES' : undefined)
    // Rows of crypto leave out `areaSymbol`.
    else if (listing.isReality) set('areaSymbol', inArea ? 'yes' : 'no')
  }
  if (quirks.unknownNewFields && mix(key, 10) % 6 === 0) set('tradingSchedule', '24/7')
  return withFields(row, listing.rowFields)
}
