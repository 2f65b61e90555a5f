import { intervalMs, type Interval } from '../../src/market/candle.js'
import type { ServedResponse } from '../../src/simulator/control.js'

/**
 * Content that the database must have, computed from the responses of the simulator. This code follows the
 * specification and shares nothing with the recorder's own reading, so that both cannot make the same mistake.
 *
 * A row is its columns as text in one fixed spelling: decimals without trailing zeros, times in milliseconds.
 */
export type TruthRow = Readonly<Record<string, string | null>>

/** Every row that was served under a key, oldest first. */
export type Truth = ReadonlyMap<string, readonly TruthRow[]>

type Wire = Readonly<Record<string, unknown>>

export function trimmed(text: string | null): string | null {
  if (text === null || !/^-?\d+(\.\d+)?$/.test(text)) return text
  const bare = text.includes('.') ? text.replace(/\.?0+$/, '') : text
  return bare === '-0' ? '0' : bare
}

/** A value of the wire: text, number or flag. */
function value(row: Wire, field: string, unset: readonly string[] = []): string | null {
  const given = row[field]
  if (given === undefined || given === null || given === '') return null
  const text = typeof given === 'string' ? given : JSON.stringify(given)
  return unset.includes(text) ? null : text
}

const decimal = (row: Wire, field: string, unset: readonly string[] = []) => trimmed(value(row, field, unset))
const time = (row: Wire, field: string) => value(row, field, ['0', '-1'])
function yesNo(row: Wire, field: string): string | null {
  const text = value(row, field)?.toLowerCase()
  return text === undefined ? null : String(text === 'yes' || text === 'true')
}

/** `bid1Price` is `bid1_price`, `openPrice24h` is `open_price_24h`. */
function columnOf(field: string): string {
  return field.replace(/24h/, '_24h').replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

const instrumentTimes = ['offTime', 'limitOpenTime', 'deliveryTime', 'deliveryStartTime', 'launchTime', 'maintainTime']
const instrumentFlags = ['isRwa', 'isReality', 'areaSymbol', 'isIsolatedBaseBorrowable', 'isIsolatedQuotedBorrowable']
const instrumentTexts = ['baseCoin', 'quoteCoin', 'type', 'status', 'deliveryPeriod', 'symbolType']
const feeRates = ['makerFeeRate', 'takerFeeRate']
const instrumentNumbers = `
  buyLimitPriceRatio sellLimitPriceRatio feeRateUpRatio openCostUpRatio minOrderQty maxOrderQty pricePrecision
  quantityPrecision quotePrecision priceMultiplier quantityMultiplier minOrderAmount maxSymbolOrderNum
  maxProductOrderNum maxPositionNum fundInterval minLeverage maxLeverage maxMarketOrderQty warningRiskRatio
  liquidationRiskRatio maxCrossedLeverage maxIsolatedLeverage userMinBorrow maxMarketOrderAmount`
  .trim()
  .split(/\s+/)

function instrument(row: Wire): TruthRow {
  const columns: Record<string, string | null> = {
    category: value(row, 'category'),
    symbol: value(row, 'symbol'),
  }
  for (const field of instrumentTexts) columns[columnOf(field)] = value(row, field)
  for (const field of instrumentFlags) columns[columnOf(field)] = yesNo(row, field)
  for (const field of instrumentTimes) columns[columnOf(field)] = time(row, field)
  for (const field of instrumentNumbers) columns[columnOf(field)] = decimal(row, field, ['-1'])
  // "0" there is no limit, which is the same as none being set.
  columns['max_order_qty'] = decimal(row, 'maxOrderQty', ['-1', '0'])
  for (const field of feeRates) columns[columnOf(field)] = decimal(row, field)
  return columns
}

const tickerDecimals = `
  lastPrice openPrice24h lowPrice24h highPrice24h ask1Price bid1Price bid1Size ask1Size price24hPcnt turnover24h
  volume24h indexPrice markPrice fundingRate openInterest platformTurnover24h`
  .trim()
  .split(/\s+/)

function ticker(row: Wire, answer: ServedResponse): TruthRow {
  const columns: Record<string, string | null> = {
    category: answer.parameters['category'] ?? null,
    symbol: value(row, 'symbol'),
    ts: time(row, 'ts') ?? String(answer.atMs),
    delivery_start_time: time(row, 'deliveryStartTime'),
    delivery_time: time(row, 'deliveryTime'),
    delivery_status: value(row, 'deliveryStatus'),
  }
  for (const field of tickerDecimals) columns[columnOf(field)] = decimal(row, field)
  return columns
}

type Level = readonly unknown[]
const array = (levels: readonly Level[], position: number) =>
  `{${levels.map((level) => trimmed(String(level[position] as string | number))).join(',')}}`

function book(row: Wire, answer: ServedResponse): TruthRow {
  const bids = row['b'] as readonly Level[]
  const asks = row['a'] as readonly Level[]
  const columns: Record<string, string | null> = {
    category: answer.parameters['category'] ?? null,
    symbol: answer.parameters['symbol'] ?? null,
    ts: value(row, 'ts'),
    bid_prices: array(bids, 0),
    bid_sizes: array(bids, 1),
    ask_prices: array(asks, 0),
    ask_sizes: array(asks, 1),
  }
  if (answer.operation === 'rpi-orderbook') {
    columns['bid_rpi_sizes'] = array(bids, 2)
    columns['ask_rpi_sizes'] = array(asks, 2)
  }
  return columns
}

function fill(row: Wire, answer: ServedResponse): TruthRow {
  return {
    category: answer.parameters['category'] ?? null,
    symbol: answer.parameters['symbol'] ?? null,
    ts: value(row, 'ts'),
    exec_id: value(row, 'execId'),
    exec_link_id: value(row, 'execLinkId'),
    side: value(row, 'side'),
    price: decimal(row, 'price'),
    size: decimal(row, 'size'),
    is_rpi: yesNo(row, 'isRPI'),
  }
}

/** Some services give seconds. */
const inMilliseconds = (time: string | null) => (time?.length === 10 ? `${time}000` : time)

/** The history of fills knows neither the link nor whether a fill is RPI. Coin futures have a name of their own there. */
function pastFill(row: Wire, answer: ServedResponse): TruthRow {
  const category = answer.parameters['productType'] ?? 'SPOT'
  const symbol = value(row, 'symbol') ?? answer.parameters['symbol'] ?? null
  return {
    category,
    symbol: category === 'COIN-FUTURES' && symbol?.endsWith('USD') === true ? `${symbol}_CM` : symbol,
    ts: inMilliseconds(value(row, 'ts')),
    exec_id: value(row, 'tradeId'),
    side: value(row, 'side')?.toLowerCase() ?? null,
    price: decimal(row, 'price'),
    size: decimal(row, 'size'),
  }
}

/** @param settleMs how long after its close a candle must be read to be final */
function candle(row: readonly string[], answer: ServedResponse, settleMs: number): TruthRow {
  const { category, symbol, type = 'market', interval = '' } = answer.parameters
  const [openTime = '', open = '', high = '', low = '', close = '', baseVolume = '', quoteTurnover = ''] = row
  const closesAt = Number(openTime) + intervalMs[interval as Interval]
  return {
    category: category ?? null,
    symbol: symbol ?? null,
    type,
    interval,
    open_time: openTime,
    open: trimmed(open),
    high: trimmed(high),
    low: trimmed(low),
    close: trimmed(close),
    base_volume: trimmed(baseVolume),
    quote_turnover: trimmed(quoteTurnover),
    is_closed: String(answer.atMs >= closesAt + settleMs),
  }
}

function rates(answer: ServedResponse): TruthRow[] {
  const { resultList } = answer.data as { readonly resultList: Wire[] }
  return resultList.map((row) => ({
    category: answer.parameters['category'] ?? null,
    symbol: value(row, 'symbol'),
    ts: time(row, 'fundingRateTimestamp'),
    funding_rate: decimal(row, 'fundingRate'),
  }))
}

/** Numbers of equal liquidations by their text, at the end of a page, by the cursor of the next page. */
type CountsByCursor = Map<string, Map<string, number>>

/** Equal ones are counted from the newest page on, as a cursor may lie between them. */
function liquidations(answer: ServedResponse, ends: CountsByCursor): TruthRow[] {
  const { list, cursor } = answer.data as { readonly list: Wire[]; readonly cursor: string }
  const { category = null, symbol = null, cursor: own = '' } = answer.parameters
  const endOf = (at: string) => [category, symbol, at].join(' ')
  const counts = new Map(own === '' ? undefined : ends.get(endOf(own)))
  const rows = list.map((row) => {
    const text = JSON.stringify(row)
    const occurrence = (counts.get(text) ?? 0) + 1
    counts.set(text, occurrence)
    return {
      category,
      symbol: value(row, 'symbol'),
      ts: time(row, 'ts'),
      side: value(row, 'side'),
      price: decimal(row, 'price'),
      amount: decimal(row, 'amount'),
      occurrence: String(occurrence),
    }
  })
  if (cursor !== '') ends.set(endOf(cursor), counts)
  return rows
}

function periods(answer: ServedResponse, valuesOf: (row: Wire) => TruthRow): TruthRow[] {
  const { category = null, symbol = null } = answer.parameters
  return (answer.data as Wire[]).map((row) => ({ category, symbol, ts: time(row, 'ts'), ...valuesOf(row) }))
}

function shares(row: Wire, of: string): TruthRow {
  return {
    long_share: decimal(row, `long${of}Ratio`),
    short_share: decimal(row, `short${of}Ratio`),
    long_short_ratio: decimal(row, `longShort${of}Ratio`),
  }
}

/** Test symbols have no bounds, and are no part of the market. */
function forecasts(answer: ServedResponse): TruthRow[] {
  const rows = (answer.data as Wire[]).filter((row) => value(row, 'minFundingRate') !== null)
  return rows.map((row) => ({
    category: answer.parameters['category'] ?? null,
    symbol: value(row, 'symbol'),
    ts: String(answer.atMs),
    funding_rate: decimal(row, 'fundingRate'),
    interval_hours: value(row, 'fundingRateInterval'),
    next_update: time(row, 'nextUpdate'),
    min_rate: decimal(row, 'minFundingRate'),
    max_rate: decimal(row, 'maxFundingRate'),
  }))
}

function rpiSymbol(row: Wire): TruthRow {
  return { category: String(row['category']).toUpperCase(), symbol: value(row, 'symbol') }
}

export const keyColumns = {
  instruments: ['category', 'symbol'],
  rpi_symbols: ['category', 'symbol'],
  tickers: ['category', 'symbol', 'ts'],
  order_books: ['category', 'symbol', 'ts'],
  rpi_order_books: ['category', 'symbol', 'ts'],
  fills: ['category', 'symbol', 'ts', 'exec_id'],
  candles: ['category', 'symbol', 'type', 'interval', 'open_time'],
  funding_rates: ['category', 'symbol', 'ts'],
  funding_forecasts: ['category', 'symbol', 'ts'],
  liquidations: ['category', 'symbol', 'ts', 'side', 'price', 'amount', 'occurrence'],
  taker_flow: ['category', 'symbol', 'ts'],
  long_short_ratios: ['category', 'symbol', 'ts'],
  long_short_accounts: ['category', 'symbol', 'ts'],
  long_short_positions: ['category', 'symbol', 'ts'],
} as const
export type RecordedTable = keyof typeof keyColumns

export function keyOf(table: RecordedTable, row: TruthRow): string {
  return keyColumns[table].map((column) => row[column]).join(' ')
}

const tableOf: Readonly<Record<string, RecordedTable>> = {
  instruments: 'instruments',
  'rpi-symbols': 'rpi_symbols',
  tickers: 'tickers',
  orderbook: 'order_books',
  'rpi-orderbook': 'rpi_order_books',
  fills: 'fills',
  'futures-fills-history': 'fills',
  'spot-fills-history': 'fills',
  candles: 'candles',
  'history-candles': 'candles',
  'history-fund-rate': 'funding_rates',
  'current-fund-rate': 'funding_forecasts',
  liquidations: 'liquidations',
  'futures-active-buy-sell': 'taker_flow',
  'futures-long-short': 'long_short_ratios',
  'futures-account-long-short': 'long_short_accounts',
  'futures-position-long-short': 'long_short_positions',
}

/** Everything that was served in a complete answer, by table and key. */
export function servedTruth(
  answers: readonly ServedResponse[],
  settleMs: number,
): Readonly<Record<RecordedTable, Truth>> {
  const truth = Object.fromEntries(Object.keys(keyColumns).map((table) => [table, new Map()])) as Record<
    RecordedTable,
    Map<string, TruthRow[]>
  >
  const ends: CountsByCursor = new Map()
  for (const answer of answers) {
    const table = tableOf[answer.operation]
    if (answer.delivered !== 'complete' || answer.data === null || table === undefined) continue
    for (const row of rowsOf(answer, settleMs, ends)) {
      const key = keyOf(table, row)
      const served = truth[table].get(key)
      if (served === undefined) truth[table].set(key, [row])
      else served.push(row)
    }
  }
  return truth
}

function rowsOf(answer: ServedResponse, settleMs: number, ends: CountsByCursor): TruthRow[] {
  switch (answer.operation) {
    case 'instruments':
      return (answer.data as Wire[]).map(instrument)
    case 'rpi-symbols':
      return (answer.data as Wire[]).map(rpiSymbol)
    case 'tickers':
      return (answer.data as Wire[]).map((row) => ticker(row, answer))
    case 'orderbook':
    case 'rpi-orderbook':
      return [book(answer.data as Wire, answer)]
    case 'fills':
      return (answer.data as Wire[]).map((row) => fill(row, answer))
    case 'candles':
    case 'history-candles':
      return (answer.data as string[][]).map((row) => candle(row, answer, settleMs))
    case 'futures-fills-history':
    case 'spot-fills-history':
      return (answer.data as Wire[]).map((row) => pastFill(row, answer))
    case 'current-fund-rate':
      return forecasts(answer)
    case 'history-fund-rate':
      return rates(answer)
    case 'liquidations':
      return liquidations(answer, ends)
    case 'futures-active-buy-sell':
      return periods(answer, (row) => ({
        buy_volume: decimal(row, 'buyVolume'),
        sell_volume: decimal(row, 'sellVolume'),
      }))
    case 'futures-long-short':
      return periods(answer, (row) => shares(row, ''))
    case 'futures-account-long-short':
      return periods(answer, (row) => shares(row, 'Account'))
    case 'futures-position-long-short':
      return periods(answer, (row) => shares(row, 'Position'))
    case 'index-components':
      // Kept by their versions: see servedVersions.ts.
      return []
  }
}
