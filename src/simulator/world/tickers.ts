import { dayMs, hourMs, type TimeMs } from '../../market/values.js'
import type { Quirks } from './quirks.js'
import { derivedPrice } from './candles.js'
import { drawnDigits, fixed, fixedWithTail, mix, mixWide, unit } from './hash.js'
import { eachRunOf, fillAt, type Market } from './market.js'
import { outsideTurnover, withFields } from './traits.js'
import { isTrading } from './listing.js'

export type TickerRow = Readonly<Record<string, string>>

/** Returns the time of a ticker, which is renewed twice a second. Instruments lag 0.6 to 1.7 s behind the request. */
export function tickerTime(market: Market, at: TimeMs): TimeMs {
  const lag = 600 + (mix(market.key, 0x1a6) % 7) * bookStepMs
  return Math.floor(at / 500) * 500 - lag
}

/** Values cached for one instrument between its tickers. */
export interface TickerState {
  /** Hour for which `high` and `low` were computed: the extremes of the path at whole hours, an approximation. */
  hour: number
  high: number
  low: number
  /** The range of fills that the platform's turnover was computed for. */
  turnoverOf: readonly [first: number, end: number]
  turnover: number
}

export function createTickerState(): TickerState {
  return { hour: -1, high: 0, low: 0, turnoverOf: [-1, -1], turnover: 0 }
}

/**
 * Returns a ticker as of `ts`. The volume (for coin futures: the turnover) is the exact sum over the fills of the 24
 * hours that end with `ts`. The last price is that of the last fill. Other 24h values are approximations. If the ticker
 * follows a tape abroad, volume, turnover and prices are those of the tape, whatever is traded here.
 */
export function tickerRow(market: Market, state: TickerState, ts: TimeMs, quirks: Quirks): TickerRow {
  const { listing, fills } = market
  const { category, symbol, priceDecimals, sizeDecimals, outsideTape } = listing
  const price = (ticks: number): string => fixed(ticks, priceDecimals)
  const [first, end] = market.fillRange(ts - dayMs + 1, ts + 1)
  const last = outsideTape ? market.mid(ts) : lastPrice(market, ts)
  const open = market.mid(Math.max(ts - dayMs, listing.launchTime))
  const lots = fills.sizeOfRange(first, end)
  renew(market, state, ts)
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
    highPrice24h: price(Math.max(state.high, last, open)),
    lowPrice24h: price(Math.min(state.low, last, open)),
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
  if (outsideTape) {
    const hours = quirks.stockExchangeHours ?? outsideTape.hours
    const turnover = outsideTurnover(market.key, outsideTape, hours, ts)
    row['volume24h'] = (turnover / (last / 10 ** priceDecimals)).toFixed(sizeDecimals)
    row['turnover24h'] = turnover.toFixed(4)
  }
  if (listing.contract !== null) addFuturesFields(row, market, ts, quirks)
  const platformTurnover = platformTurnoverOf(market, state, first, end)
  if (platformTurnover !== null) row['platformTurnover24h'] = platformTurnover
  if (quirks.unknownNewFields && mix(market.key, 0x6e) % 6 === 0)
    row['usdTurnover24h'] = (volume * averagePrice).toFixed(2)
  return Object.keys(listing.tickerFields).length === 0 ? row : withFields(row, listing.tickerFields)
}

/** Returns the price of the last fill, in ticks; before the first fill, the middle price at launch. */
function lastPrice(market: Market, ts: TimeMs): number {
  const [begin, end] = market.fillRange(0, ts + 1)
  return end > begin ? fillAt(market, end - 1).priceTicks : market.mid(market.listing.launchTime)
}

/** Returns the sum of price times size of the fills [first, end). The trait `platformTurnover` may replace it. */
function platformTurnoverOf(market: Market, state: TickerState, first: number, end: number): string | null {
  const { platformTurnover, priceDecimals, sizeDecimals } = market.listing
  if (platformTurnover === null) return null
  if (platformTurnover === 'empty') return ''
  if (platformTurnover === 'zero') return '0'
  if (state.turnoverOf[0] !== first || state.turnoverOf[1] !== end) {
    let ticksTimesLots = 0
    eachRunOf(market, first, end, (run, runFirst, runCount) => {
      market.eachPrice(run, runFirst, runCount, (price, from, count) => {
        ticksTimesLots += price * market.fills.sizeOfRange(from, from + count)
      })
    })
    state.turnoverOf = [first, end]
    state.turnover = ticksTimesLots / 10 ** (priceDecimals + sizeDecimals)
  }
  return (state.turnover + (platformTurnover === 'counted' ? 0 : platformTurnover)).toFixed(4)
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

function renew(market: Market, state: TickerState, ts: TimeMs): void {
  const hour = Math.floor(ts / hourMs)
  if (state.hour === hour) return
  let high = Number.NEGATIVE_INFINITY
  let low = Number.POSITIVE_INFINITY
  for (let back = 0; back < 24; back++) {
    const mid = market.mid((hour - back) * hourMs)
    if (mid > high) high = mid
    if (mid < low) low = mid
  }
  Object.assign(state, { hour, high, low })
}

/** A book is rebuilt this often, in milliseconds. Requests that follow sooner get the same snapshot. */
const bookStepMs = 100

type Level = readonly [price: string, size: string] | readonly [price: string, size: string, rpiSize: string]

/** A book as the service gives it, with numbers as the text that is sent. Asks ascend, bids descend. */
export interface BookRow {
  readonly a: readonly Level[]
  readonly b: readonly Level[]
  readonly ts: string
}

type BookKind = 'plain' | 'rpi'

interface BookOptions {
  readonly limit: number
  readonly kind: BookKind
  readonly isEmpty: boolean
  /** Largest time by which a book's time may be ahead of the moment. */
  readonly aheadMs: number
}

/** Returns the book as the service gives it at a moment. */
export function bookRow(market: Market, at: TimeMs, { limit, kind, isEmpty, aheadMs }: BookOptions): BookRow {
  const { book: trait, launchTime } = market.listing
  const now = Math.floor(at / bookStepMs) * bookStepMs
  const state = trait === 'still' || trait === 'frozen' ? launchTime : now
  const ts = String((trait === 'frozen' ? state : now) + (mix(market.key, 0xa4ead) % (aheadMs + 1)))
  if (isEmpty || trait === 'empty' || !isTrading(market.listing, now)) return { a: [], b: [], ts }
  return { a: bookSide(market, 'ask', state, limit, kind), b: bookSide(market, 'bid', state, limit, kind), ts }
}

/** Returns one side of the book at a moment: at most `depth` levels, the best first. */
function bookSide(market: Market, side: 'bid' | 'ask', at: TimeMs, depth: number, kind: BookKind): readonly Level[] {
  const { priceDecimals, sizeDecimals, meanSizeLots, extraSizeDigits, hasRpi } = market.listing
  const { levelGap, halfSpread } = market
  const mid = market.mid(at)
  const sideKey = market.key ^ (side === 'bid' ? 0xb1d : 0xa5c)
  // A size belongs to a price and lives for some seconds, so that neighbouring snapshots resemble each other.
  const sizeKey = sideKey ^ Math.floor(at / 2_000)
  const levels: Level[] = []
  for (let level = 0; level < depth; level++) {
    const jitter = level === 0 ? 0 : mixWide(sideKey, level + Math.floor(at / 700) * 1_024) % levelGap
    const distance = halfSpread + level * levelGap + jitter
    const ticks = side === 'bid' ? mid - distance : mid + distance
    if (ticks <= 0) break
    const hash = mixWide(sizeKey, ticks)
    const lots = 1 + (hash % (meanSizeLots * 8))
    const price = fixed(ticks, priceDecimals)
    const size = fixedWithTail(lots, sizeDecimals, extraSizeDigits, hash)
    if (kind === 'plain') levels.push([price, size])
    else levels.push([price, size, fixed(hasRpi && hash % 3 === 0 ? hash % (meanSizeLots * 2) : 0, sizeDecimals)])
  }
  return levels
}
