import type { Kysely } from 'kysely'
import type { Candle } from '../../src/market/candle.js'
import type { TradedCategory } from '../../src/market/category.js'
import { type Fill, type OrderBook, rejectedRow, type RpiOrderBook, type Ticker } from '../../src/market/rows.js'
import { upsertCandles } from '../../src/ledger/storeCandles.js'
import { addKnown, multirangeText } from '../../src/ledger/verdicts.js'
import { insertFills } from './insertFills.js'
import { recordGap } from '../../src/ledger/gaps.js'
import { recordInstruments, recordRpiSymbols } from '../../src/ledger/instruments.js'
import { appendRows } from '../../src/db/writeRows.js'
import { storeVersions } from '../../src/ledger/versions.js'
import { insertRejectedRows } from '../../src/ledger/rejectedRows.js'
import type { Database } from '../../src/db/schema.js'
import { anInstrument, aTicker } from './marketRows.js'
import { addCoverage } from './coverage.js'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** The two days that the cookbook asks about. */
const from = Date.UTC(2026, 2, 2)
const to = from + 2 * dayMs
/** The hours of which there are fills and order books, too. */
const busyFrom = from + 12 * hourMs
const busyTo = busyFrom + 2 * hourMs

interface Market {
  readonly category: TradedCategory
  readonly symbol: string
  readonly price: number
  readonly decimals: number
  readonly size: number
}
const markets: readonly Market[] = [
  { category: 'SPOT', symbol: 'BTCUSDT', price: 60_000, decimals: 1, size: 0.4 },
  { category: 'USDT-FUTURES', symbol: 'BTCUSDT', price: 60_050, decimals: 1, size: 0.9 },
  { category: 'USDT-FUTURES', symbol: 'ETHUSDT', price: 3_000, decimals: 2, size: 8 },
  { category: 'COIN-FUTURES', symbol: 'BTCUSD_CM', price: 60_040, decimals: 1, size: 20_000 },
]

/** Whole numbers from 0 to `below`, the same on every machine. */
function dice(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** The price at the begin of each minute: coins move together, each a little on its own. */
function walk(market: Market, index: number): number[] {
  const common = dice(7)
  const own = dice(index + 100)
  let level = 1
  return Array.from({ length: (to - from) / minuteMs + 1 }, () => {
    level *= 1 + (common(2001) - 1000) / 2_000_000 + (own(2001) - 1000) / 8_000_000
    return market.price * level
  })
}

/**
 * A small market whose every number is known: what the cookbook's answers are computed from. Who asks for rows of each
 * kind, and not for those answers, takes the candles and tickers of a few minutes alone.
 */
export async function loadCookbookMarket(db: Kysely<Database>, everyMinutes = 1): Promise<void> {
  const isTaken = (at: number) => ((at - from) / minuteMs) % everyMinutes === 0
  await loadInstruments(db)
  await loadRejected(db)
  await loadTerms(db)
  for (const [index, market] of markets.entries()) {
    const prices = walk(market, index)
    const candles = candlesOf(market, prices, index)
    if (market.symbol === 'ETHUSDT') await loadLaterChanged(db, candles)
    await upsertCandles(
      db,
      candles.filter(({ openTime }) => isTaken(openTime)),
    )
    const tickers = tickersOf(market, prices, index)
    await appendRows(
      db,
      'tickers',
      tickers.filter(({ ts }) => isTaken(ts)),
    )
    if (market.category !== 'COIN-FUTURES') {
      const books = booksOf(market, prices, index)
      await appendRows(db, 'order_books', books.map(withoutRpi))
      if (market.category === 'USDT-FUTURES') await appendRows(db, 'rpi_order_books', books)
    }
    await insertFills(db, fillsOf(market, prices, index))
    await loadCoverage(db, market)
  }
}

/** As the service gave two of them at first: with less volume, and one with another close. */
async function loadLaterChanged(db: Kysely<Database>, candles: readonly Candle[]): Promise<void> {
  const first = candles.slice(600, 602).map((candle, i) => ({
    ...candle,
    close: i === 0 ? candle.close : candle.open,
    baseVolume: (Number(candle.baseVolume) - 1.5).toFixed(4),
  }))
  await upsertCandles(db, first)
}

/** A fill without a price: it was told, and the others of its response were stored. */
async function loadRejected(db: Kysely<Database>): Promise<void> {
  const request = { operation: 'fills', parameters: { category: 'USDT-FUTURES', symbol: 'ETHUSDT' } }
  const rejected = rejectedRow(request, 'price is not a decimal number', '{"execId":"10481","price":"","size":"1.20"}')
  for (const minute of [0, 1, 2]) await insertRejectedRows(db, [rejected], busyFrom + minute * minuteMs)
}

/** Loads components of an index. They change in the first night. */
async function loadTerms(db: Kysely<Database>): Promise<void> {
  const target = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
  const later = from + 6 * hourMs
  for (const at of [from - dayMs, later]) {
    const seen = { ...target, ts: at, receivedAt: at, extra: {} }
    const batch = { target, requestTime: at, receivedAt: at, rejected: [] }
    const components = (at < later ? ['0.4', '0.35', '0.25'] : ['0.45', '0.35', '0.2']).map((weight, place) => ({
      exchange: ['Binance', 'OKX', 'Coinbase'][place] ?? '',
      spotPair: 'BTCUSDT',
      weight,
      equivalentPrice: null,
    }))
    const rowsOf = <Own>(own: readonly Own[]) => own.map((row) => ({ ...seen, ...row }))
    await storeVersions(db, 'index_components', { ...batch, stream: 'index_components', rows: rowsOf(components) })
  }
}

async function loadInstruments(db: Kysely<Database>): Promise<void> {
  const launchTime = Date.UTC(2024, 0, 1)
  const listed = (status: string, priceMultiplier: string) => [
    anInstrument({
      category: 'USDT-FUTURES',
      symbol: 'BTCUSDT',
      status: 'online',
      baseCoin: 'BTC',
      quoteCoin: 'USDT',
      priceMultiplier,
      fundInterval: 8,
      launchTime,
    }),
    anInstrument({
      category: 'USDT-FUTURES',
      symbol: 'ETHUSDT',
      status: 'online',
      baseCoin: 'ETH',
      quoteCoin: 'USDT',
      priceMultiplier: '0.01',
      fundInterval: 8,
      launchTime,
    }),
    anInstrument({
      category: 'USDT-FUTURES',
      symbol: 'OLDUSDT',
      status,
      baseCoin: 'OLD',
      quoteCoin: 'USDT',
      launchTime,
    }),
  ]
  await recordInstruments(db, 'USDT-FUTURES', listed('online', '0.5'), from - dayMs)
  await recordInstruments(db, 'USDT-FUTURES', listed('limit_open', '0.1'), from + 6 * hourMs)
  await recordInstruments(db, 'USDT-FUTURES', listed('limit_open', '0.1').slice(0, 2), from + 30 * hourMs, {
    complete: true,
  })
  const coin = { status: 'online', baseCoin: 'BTC', launchTime }
  await recordInstruments(db, 'SPOT', [anInstrument({ symbol: 'BTCUSDT', quoteCoin: 'USDT', ...coin })], from - dayMs)
  await recordInstruments(
    db,
    'COIN-FUTURES',
    [anInstrument({ category: 'COIN-FUTURES', symbol: 'BTCUSD_CM', quoteCoin: 'USD', fundInterval: 8, ...coin })],
    from - dayMs,
  )
  const rpi = (...symbols: string[]) => symbols.map((symbol) => ({ category: 'USDT-FUTURES' as const, symbol }))
  await recordRpiSymbols(db, rpi('BTCUSDT', 'OLDUSDT'), from - dayMs, { complete: true })
  await recordRpiSymbols(db, rpi('BTCUSDT', 'ETHUSDT'), from + 9 * hourMs, { complete: true })
}

function candlesOf(market: Market, prices: readonly number[], index: number): Candle[] {
  const roll = dice(index + 200)
  const one = 10 ** -market.decimals
  return prices.slice(0, -1).flatMap((open, minute): Candle[] => {
    const close = prices[minute + 1] ?? open
    const volume = (market.size * (20 + roll(100))) / 50
    // A gap of four minutes, such as a halt of trading leaves.
    if (market.symbol === 'ETHUSDT' && minute >= 722 && minute < 726) return []
    return [
      {
        category: market.category,
        symbol: market.symbol,
        type: 'market',
        interval: '1m',
        openTime: from + minute * minuteMs,
        open: open.toFixed(market.decimals),
        high: (Math.max(open, close) + roll(20) * one).toFixed(market.decimals),
        low: (Math.min(open, close) - roll(20) * one).toFixed(market.decimals),
        close: close.toFixed(market.decimals),
        baseVolume: (market.category === 'COIN-FUTURES' ? volume / open : volume).toFixed(4),
        quoteTurnover: (market.category === 'COIN-FUTURES' ? volume : volume * open).toFixed(2),
        isClosed: true,
      },
    ]
  })
}

function tickersOf(market: Market, prices: readonly number[], index: number): Ticker[] {
  const roll = dice(index + 300)
  const isFutures = market.category !== 'SPOT'
  const first = prices[0] ?? market.price
  return prices.flatMap((price, minute) => {
    if (minute % 5 !== 0 || minute === prices.length - 1) return []
    const text = (value: number) => value.toFixed(market.decimals)
    const spread = (1 + roll(3)) * 10 ** -market.decimals
    const ts = from + minute * minuteMs
    return [
      aTicker({
        category: market.category,
        symbol: market.symbol,
        ts,
        receivedAt: ts + 300,
        lastPrice: text(price),
        bid1Price: text(price - spread / 2),
        bid1Size: (market.size * (1 + roll(9))).toFixed(3),
        ask1Price: text(price + spread / 2),
        ask1Size: (market.size * (1 + roll(9))).toFixed(3),
        openPrice24h: text(first),
        highPrice24h: text(Math.max(price, first) * 1.01),
        lowPrice24h: text(Math.min(price, first) * 0.99),
        volume24h: (market.size * 1500).toFixed(3),
        turnover24h: (market.category === 'COIN-FUTURES' ? market.size * 1500 : market.size * 1500 * price).toFixed(2),
        price24hPcnt: (price / first - 1).toFixed(5),
        ...(isFutures && {
          indexPrice: (price * (1 - (roll(40) - 10) / 100_000)).toFixed(market.decimals + 2),
          markPrice: (price * (1 - roll(20) / 100_000)).toFixed(market.decimals + 1),
          fundingRate: ((roll(300) - 100) / 1_000_000).toFixed(6),
          openInterest: (market.size * (20_000 + minute + roll(400))).toFixed(1),
        }),
      }),
    ]
  })
}

function booksOf(market: Market, prices: readonly number[], index: number): RpiOrderBook[] {
  const roll = dice(index + 400)
  const step = market.price / 100_000
  const levels = Array.from({ length: 20 }, (_, level) => level)
  return Array.from({ length: (busyTo - busyFrom) / (5 * minuteMs) }, (_, i): RpiOrderBook => {
    const ts = busyFrom + i * 5 * minuteMs + 1_000
    const mid = prices[Math.floor((ts - from) / minuteMs)] ?? market.price
    const side = (sign: number) => levels.map((level) => (mid + sign * step * (level + 0.5)).toFixed(market.decimals))
    const sizes = () => levels.map((level) => (market.size * (level + 1 + roll(10))).toFixed(3))
    // RPI quotes stand at the first level or two, where nobody else does.
    const isRpi = (level: number) => level < i % 3
    const visible = (all: string[]) => all.map((size, level) => (isRpi(level) ? '0' : size))
    const rpi = () => levels.map((level) => (isRpi(level) ? (market.size * (1 + roll(4))).toFixed(3) : '0'))
    return {
      category: market.category,
      symbol: market.symbol,
      ts,
      bidPrices: side(-1),
      bidSizes: market.category === 'SPOT' ? sizes() : visible(sizes()),
      bidRpiSizes: rpi(),
      askPrices: side(1),
      askSizes: market.category === 'SPOT' ? sizes() : visible(sizes()),
      askRpiSizes: rpi(),
      receivedAt: ts + 120,
      extra: {},
    }
  })
}

function fillsOf(market: Market, prices: readonly number[], index: number): Fill[] {
  const roll = dice(index + 500)
  return Array.from({ length: 480 }, (_, i): Fill => {
    const ts = busyFrom + i * 15_000 + roll(14_000)
    const price = prices[Math.floor((ts - from) / minuteMs)] ?? market.price
    const size = (market.size * (1 + roll(40)) * (i % 97 === 0 ? 25 : 1)) / 20
    return {
      category: market.category,
      symbol: market.symbol,
      ts,
      execId: String(10_000 + i),
      execLinkId: null,
      side: roll(100) < 54 ? 'buy' : 'sell',
      price: (price * (1 + (roll(21) - 10) / 200_000)).toFixed(market.decimals),
      size: market.category === 'COIN-FUTURES' ? String(Math.round(size)) : size.toFixed(3),
      isRpi: market.category === 'USDT-FUTURES' ? roll(100) < 12 : null,
      receivedAt: ts + 400,
      extra: i % 50 === 0 ? { source: 'api' } : {},
    }
  })
}

/** The ordinary book shows no RPI quotes, nor the levels that have no others. */
function withoutRpi(book: RpiOrderBook): OrderBook {
  const shown = (prices: readonly string[], sizes: readonly string[]) => {
    const levels = prices.map((_, level) => level).filter((level) => sizes[level] !== '0')
    return [levels.map((level) => prices[level] ?? ''), levels.map((level) => sizes[level] ?? '')] as const
  }
  const [bidPrices, bidSizes] = shown(book.bidPrices, book.bidSizes)
  const [askPrices, askSizes] = shown(book.askPrices, book.askSizes)
  const { category, symbol, ts, receivedAt, extra } = book
  return { category, symbol, ts, bidPrices, bidSizes, askPrices, askSizes, receivedAt, extra }
}

/** The candles of the example do not count exactly its fills, so that these are not claimed as live ones are. */
async function loadCoverage(db: Kysely<Database>, { category, symbol }: Market): Promise<void> {
  const candles = { stream: 'candles', category, symbol, type: 'market', interval: '1m' } as const
  const fills = { stream: 'fills', category, symbol, type: '', interval: '' } as const
  if (symbol === 'ETHUSDT') {
    const gap = { from: from + 722 * minuteMs, to: from + 726 * minuteMs }
    await addCoverage(db, candles, [
      { from, to: gap.from },
      { from: gap.to, to },
    ])
    await recordGap(db, { ...candles, range: gap, reason: 'the service does not give these candles' })
    const lost = { from: busyFrom + hourMs, to: busyFrom + hourMs + 90_000 }
    const known = [
      { from: busyFrom, to: lost.from },
      { from: lost.to, to: busyTo },
    ]
    await addKnown(db, fills, 'recorded', multirangeText(known))
    const reason = 'more fills happened between two responses than one response shows'
    await recordGap(db, { ...fills, range: lost, reason, verdict: 'lost' })
    return
  }
  await addCoverage(db, candles, [{ from, to }])
  await addKnown(db, fills, 'recorded', multirangeText([{ from: busyFrom, to: busyTo }]))
}
