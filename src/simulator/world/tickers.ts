import type { TimeMs } from '../../market/values.js'
import type { Quirks } from '../quirks.js'
import { bookSide, bookStepMs } from './books.js'
import { derivedPrice } from './candles.js'
import { drawnDigits, fixed } from './decimals.js'
import { mix, unit } from './hash.js'
import { fillAt, type Market } from './market.js'

const dayMs = 86_400_000
const hourMs = 3_600_000

export type TickerRow = Readonly<Record<string, string>>

/** Tickers lag behind the request, each instrument by its own 0.5 to 1.7 s; they are renewed twice a second. */
export function tickerTime(market: Market, at: TimeMs): TimeMs {
  const lag = 600 + (mix(market.key, 0x1a6) % 7) * bookStepMs
  return Math.floor(at / 500) * 500 - lag
}

/** Extremes of the path at whole hours: an approximation, computed once an hour. */
export interface DayExtremes {
  hour: number
  high: number
  low: number
}

/**
 * A ticker as of `ts`. The volume (for coin futures: the turnover) is the exact sum over the fills of the 24 hours
 * that end with `ts`, and the last price that of the last fill. The other 24h values are approximations.
 */
export function tickerRow(market: Market, extremes: DayExtremes, ts: TimeMs, quirks: Quirks): TickerRow {
  const { listing, fills } = market
  const { category, symbol, priceDecimals, sizeDecimals } = listing
  const price = (ticks: number): string => fixed(ticks, priceDecimals)
  const [first, end] = market.fillRange(ts - dayMs + 1, ts + 1)
  const total = market.fillRange(0, ts + 1)
  const last = total[1] > total[0] ? fillAt(market, total[1] - 1).priceTicks : market.mid(listing.launchTime)
  const open = market.mid(Math.max(ts - dayMs, listing.launchTime))
  const lots = fills.sizeOfRange(first, end)
  renew(market, extremes, ts)
  const [bid] = bookSide(market, 'bid', ts, 1, 'plain')
  const [ask] = bookSide(market, 'ask', ts, 1, 'plain')
  const inQuote = category === 'COIN-FUTURES'
  const averagePrice = listing.basePriceTicks / 10 ** priceDecimals
  const volume = lots / 10 ** sizeDecimals
  const row: Record<string, string> = {
    category,
    symbol,
    lastPrice: price(last),
    openPrice24h: price(open),
    highPrice24h: price(Math.max(extremes.high, last, open)),
    lowPrice24h: price(Math.min(extremes.low, last, open)),
    bid1Price: bid?.[0] ?? '',
    bid1Size: bid?.[1] ?? '',
    ask1Price: ask?.[0] ?? '',
    ask1Size: ask?.[1] ?? '',
    price24hPcnt: (open === 0 ? 0 : (last - open) / open).toFixed(5),
    volume24h: inQuote ? (volume / averagePrice).toFixed(8) : fixed(lots, sizeDecimals),
    turnover24h: inQuote ? fixed(lots, sizeDecimals) : (volume * averagePrice).toFixed(6),
    ts:
      quirks.tickerTsZero > 0 && unit(mix(market.key, ts / bookStepMs, 0x75)) < quirks.tickerTsZero ? '0' : String(ts),
  }
  if (listing.contract !== null) addFuturesFields(row, market, ts, quirks)
  if (listing.isReality) row['platformTurnover24h'] = (volume * averagePrice * 0.4).toFixed(4)
  if (quirks.unknownNewFields && mix(market.key, 0x6e) % 6 === 0)
    row['usdTurnover24h'] = (volume * averagePrice).toFixed(2)
  return row
}

function addFuturesFields(row: Record<string, string>, market: Market, ts: TimeMs, quirks: Quirks): void {
  const { deliveryTime, priceDecimals, sizeDecimals, launchTime } = market.listing
  const hour = Math.floor(ts / hourMs)
  const digits = drawnDigits(mix(market.key, ts / bookStepMs), Math.max(0, 16 - priceDecimals))
  row['indexPrice'] = fixed(derivedPrice(market, 'index', ts), priceDecimals) + digits
  row['markPrice'] = fixed(derivedPrice(market, 'mark', ts), priceDecimals)
  row['fundingRate'] = fixed((mix(market.key, Math.floor(hour / 8), 0xf0) % 400) - 100, 6)
  const interest = market.listing.meanSizeLots * (2_000 + (mix(market.key, Math.floor(ts / 5_000)) % 500))
  row['openInterest'] = fixed(interest, sizeDecimals) + (sizeDecimals === 0 ? '' : drawnDigits(hour, 16 - sizeDecimals))
  if (deliveryTime !== null) {
    row['deliveryStartTime'] = String(deliveryTime - 600_000)
    row['deliveryTime'] = String(deliveryTime)
    row['deliveryStatus'] = deliveryStatus(ts, launchTime, deliveryTime)
  } else if (quirks.notSetSpellings === 'mixed') {
    for (const name of ['deliveryStartTime', 'deliveryTime', 'deliveryStatus']) row[name] = ''
  }
}

function deliveryStatus(ts: TimeMs, launchTime: TimeMs, deliveryTime: TimeMs): string {
  if (ts < launchTime) return 'delivery_config_period'
  if (ts >= deliveryTime) return 'delivery_period'
  return ts >= deliveryTime - 600_000 ? 'delivery_before' : 'delivery_normal'
}

function renew(market: Market, extremes: DayExtremes, ts: TimeMs): void {
  const hour = Math.floor(ts / hourMs)
  if (extremes.hour === hour) return
  let high = Number.NEGATIVE_INFINITY
  let low = Number.POSITIVE_INFINITY
  for (let back = 0; back < 24; back++) {
    const mid = market.mid((hour - back) * hourMs)
    if (mid > high) high = mid
    if (mid < low) low = mid
  }
  Object.assign(extremes, { hour, high, low })
}
