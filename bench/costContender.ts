import http from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import axios from 'axios'
import { createExchangeClient, type ExchangeClient, type Page } from '../src/exchange/client.js'
import { type Operation, operations } from '../src/market/stream.js'
import type { CostKind } from './costBodies.js'
import { systemClock } from '../src/runtime/clock.js'
import { createLogger } from '../src/runtime/logger.js'

/** One request and what is made of its response; resolves to how many rows came out of it. */
type Ask = () => Promise<number>

const { values } = parseArgs({
  options: {
    contender: { type: 'string', default: 'recorder' },
    kind: { type: 'string', default: 'orderbook' },
    url: { type: 'string', default: '' },
    requests: { type: 'string', default: '1000' },
    rivals: { type: 'string', default: '' },
  },
})
const kind = values.kind as CostKind
/** Above any rate that sequential requests reach, so that the pacer never sleeps during the measurement. */
const maxPerSecond = 30_000
const category = 'USDT-FUTURES'
const symbol = 'BTCUSDT'

function recorder(): Ask {
  const perSecond = Object.fromEntries(operations.map((name) => [name, maxPerSecond])) as Record<Operation, number>
  const client = createExchangeClient({
    clock: systemClock,
    logger: createLogger('silent'),
    baseUrl: values.url,
    timeoutMs: 10_000,
    maxConnections: 64,
    latencyJitterMs: 0,
    limits: { overallPerMinute: maxPerSecond * 60, perSecond },
    retry: { attempts: 4, minDelayMs: 250, maxDelayMs: 5000, totalMs: 30_000 },
  })
  return asksOf(client)[kind]
}

function asksOf(client: ExchangeClient): Record<CostKind, Ask> {
  const key = { category, symbol } as const
  const rowsOf = async (response: Promise<Page<unknown>>) => (await response).rows.length
  return {
    orderbook: () => rowsOf(client.orderBook({ ...key, limit: 50 })),
    fills: () => rowsOf(client.fills({ ...key, limit: 100 })),
    candles: () => rowsOf(client.candles({ ...key, interval: '1m', limit: 1000, settleMs: 5000 })),
    tickers: () => rowsOf(client.tickers({ category })),
  }
}

const paths: Record<CostKind, string> = {
  orderbook: `orderbook?category=${category}&symbol=${symbol}&limit=50`,
  fills: `fills?category=${category}&symbol=${symbol}&limit=100`,
  candles: `candles?category=${category}&symbol=${symbol}&interval=1m&limit=1000`,
  tickers: `tickers?category=${category}`,
}

/** What nobody who uses axios can do without: the request, and JSON.parse of its body. */
function floor(): Ask {
  const instance = axios.create({ httpAgent: new http.Agent({ keepAlive: true }), proxy: false })
  return async () => {
    const { data } = await instance.get<{ data: unknown }>(`${values.url}/api/v3/market/${paths[kind]}`)
    return Array.isArray(data.data) ? data.data.length : 1
  }
}

/** The parts of the rivals' interfaces that are used here; they are installed beside the project for this alone. */
interface Ccxt {
  urls: { api: Record<string, string> }
  setMarkets(markets: readonly unknown[]): void
  safeMarketStructure(market: object): object
  throttle: unknown
  fetchOrderBook(symbol: string, limit: number): Promise<unknown>
  fetchTrades(symbol: string, since: undefined, limit: number): Promise<readonly unknown[]>
  fetchOHLCV(symbol: string, timeframe: string, since: undefined, limit: number): Promise<readonly unknown[]>
  fetchTickers(symbols: undefined, params: object): Promise<object>
}

function ccxt(): Ask {
  const library = rival('ccxt') as { bitget: new (options: object) => Ccxt }
  const exchange = new library.bitget({ enableRateLimit: false, options: { uta: true } })
  for (const name of Object.keys(exchange.urls.api)) exchange.urls.api[name] = values.url
  const market = exchange.safeMarketStructure({
    id: symbol,
    symbol: 'BTC/USDT:USDT',
    base: 'BTC',
    quote: 'USDT',
    settle: 'USDT',
    baseId: 'BTC',
    quoteId: 'USDT',
    settleId: 'USDT',
    type: 'swap',
    spot: false,
    swap: true,
    contract: true,
    linear: true,
    inverse: false,
    contractSize: 1,
    precision: { amount: 0.0001, price: 0.1 },
  })
  exchange.setMarkets([market])
  const unified = 'BTC/USDT:USDT'
  return {
    orderbook: async () => Number((await exchange.fetchOrderBook(unified, 50)) !== null),
    fills: async () => (await exchange.fetchTrades(unified, undefined, 100)).length,
    candles: async () => (await exchange.fetchOHLCV(unified, '1m', undefined, 1000)).length,
    tickers: async () =>
      Object.keys(await exchange.fetchTickers(undefined, { productType: category, category })).length,
  }[kind]
}

function bitgetApi(): Ask {
  type Client = Record<string, (query: object) => Promise<{ data: unknown }>>
  const library = rival('bitget-api') as { RestClientV3: new (options: object) => Client }
  const client = new library.RestClientV3({ baseUrl: values.url })
  const call = async (name: string, query: object) => {
    const { data } = (await client[name]?.(query)) ?? { data: null }
    return Array.isArray(data) ? data.length : 1
  }
  return {
    orderbook: () => call('getOrderBook', { category, symbol, limit: '50' }),
    fills: () => call('getFills', { category, symbol, limit: '100' }),
    candles: () => call('getCandles', { category, symbol, interval: '1m', limit: '1000' }),
    tickers: () => call('getTickers', { category }),
  }[kind]
}

function rival(name: string): unknown {
  return createRequire(join(values.rivals, 'package.json'))(name)
}

const contenders: Readonly<Record<string, () => Ask>> = { recorder, floor, ccxt, 'bitget-api': bitgetApi }
const ask = contenders[values.contender]?.()
if (ask === undefined) throw new Error(`no contender ${values.contender}`)
const requests = Number(values.requests)
let rows = 0
for (let i = 0; i < requests / 2; i++) rows = await ask()
const before = process.cpuUsage()
for (let i = 0; i < requests; i++) rows = await ask()
const { user, system } = process.cpuUsage(before)
process.send?.({ microseconds: (user + system) / requests, rows })
process.exit(0)
