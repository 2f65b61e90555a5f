import type { Candle, CandleSeries } from '../../src/market/candle.js'
import { tickerFields } from '../../src/market/stream.js'
import type { Fill, OrderBook, RpiOrderBook, Ticker } from '../../src/market/rows.js'
import { type Instrument, type InstrumentField, instrumentFields } from '../../src/market/instrument.js'

/** A moment on a whole minute, so that candles can open at it. */
export const someTime = Date.UTC(2026, 0, 15, 12, 0, 0)

export function aFill(changes: Partial<Fill> = {}): Fill {
  return {
    category: 'SPOT',
    symbol: 'BTCUSDT',
    ts: someTime,
    execId: '1',
    execLinkId: null,
    side: 'buy',
    price: '100.50',
    size: '0.010',
    isRpi: null,
    receivedAt: someTime + 250,
    extra: {},
    ...changes,
  }
}

/** A closed candle of a series, from its row as the service sends it. */
export function closedCandle(series: CandleSeries, row: readonly string[]): Candle {
  const [openTime, open = '', high = '', low = '', close = '', baseVolume = '', quoteTurnover = ''] = row
  const { category, symbol, type, interval } = series
  const values = { open, high, low, close, baseVolume, quoteTurnover }
  return { category, symbol, type, interval, ...values, openTime: Number(openTime), isClosed: true }
}

export function aCandle(changes: Partial<Candle> = {}): Candle {
  return {
    category: 'SPOT',
    symbol: 'BTCUSDT',
    type: 'market',
    interval: '1m',
    openTime: someTime,
    open: '10',
    high: '12',
    low: '9',
    close: '11',
    baseVolume: '5.0',
    quoteTurnover: '55.00',
    isClosed: true,
    ...changes,
  }
}

export function aTicker(changes: Partial<Ticker> = {}): Ticker {
  const unset = Object.fromEntries(Object.keys(tickerFields).map((field) => [field, null]))
  return {
    category: 'SPOT',
    symbol: 'BTCUSDT',
    ts: someTime,
    receivedAt: someTime + 250,
    extra: {},
    ...(unset as Record<keyof typeof tickerFields, null>),
    ...changes,
  }
}

export function aBook(changes: Partial<OrderBook> = {}): OrderBook {
  return {
    category: 'SPOT',
    symbol: 'BTCUSDT',
    ts: someTime,
    bidPrices: ['240.00', '239.99'],
    bidSizes: ['1.0', '2'],
    askPrices: ['240.01'],
    askSizes: ['3.500'],
    receivedAt: someTime + 250,
    extra: {},
    ...changes,
  }
}

export function anRpiBook(changes: Partial<RpiOrderBook> = {}): RpiOrderBook {
  return { ...aBook(), bidRpiSizes: ['0', '0.5'], askRpiSizes: ['0.0'], ...changes }
}

export function anInstrument(changes: Partial<Instrument> = {}): Instrument {
  const unset = Object.fromEntries((Object.keys(instrumentFields) as InstrumentField[]).map((field) => [field, null]))
  return {
    category: 'SPOT',
    symbol: 'BTCUSDT',
    extra: {},
    ...(unset as Record<InstrumentField, null>),
    status: 'online',
    ...changes,
  }
}
