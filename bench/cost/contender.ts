import http from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import axios from 'axios'
import { createExchangeClient, type Page } from '../../src/exchange/client.js'
import { type Operation, operations } from '../../src/market/operation.js'
import { systemClock } from '../../src/runtime/clock.js'
import { createLogger } from '../../src/runtime/logger.js'
import { childOptions } from '../tools/processes.js'
import { category, type ContenderOptions, type CostKind, pathOf, symbol } from './client.js'
import { TestRight } from '../../test/support/rights.js'

/** Sends one request and handles its response. Resolves to the number of rows. */
type Ask = () => Promise<number>

const { contender, kind, url, rivals, requests } = childOptions() as ContenderOptions
/** Above any rate that sequential requests reach: the pacer must never sleep during the measurement. */
const maxPerSecond = 30_000

function recorder(): Record<CostKind, Ask> {
  const perSecond = Object.fromEntries(operations.map((name) => [name, maxPerSecond])) as Record<Operation, number>
  const client = createExchangeClient(new TestRight(), {
    clock: systemClock,
    logger: createLogger('silent'),
    baseUrl: url,
    timeoutMs: 10_000,
    maxConnections: 64,
    latencyJitterMs: 0,
    limits: { overallPerMinute: maxPerSecond * 60, perSecond },
    retry: { attempts: 4, minDelayMs: 250, maxDelayMs: 5000, totalMs: 30_000 },
    serviceClock: {
      judge: ({ requestTime }) => ({ isBelieved: true, serviceTime: requestTime }),
      now: () => Date.now(),
    },
  })
  const key = { category, symbol } as const
  const rowsOf = async (response: Promise<Page<unknown>>) => (await response).rows.length
  return {
    orderbook: () => rowsOf(client.orderBook({ ...key, limit: 50 })),
    fills: () => rowsOf(client.fills({ ...key, limit: 100 })),
    candles: () => rowsOf(client.candles({ ...key, interval: '1m', limit: 1000, settleMs: 5000 })),
    tickers: () => rowsOf(client.tickers({ category })),
  }
}

/** The least that a client on axios does: the request, and JSON.parse of its body. */
function floor(): Ask {
  const instance = axios.create({ httpAgent: new http.Agent({ keepAlive: true }), proxy: false })
  return async () => {
    const { data } = await instance.get<{ data: unknown }>(`${url}${pathOf(kind)}`)
    return Array.isArray(data.data) ? data.data.length : 1
  }
}

/** The parts of ccxt's interface that are used here. */
interface Ccxt {
  urls: { api: Record<string, string> }
  setMarkets(markets: readonly unknown[]): void
  safeMarketStructure(market: object): object
  fetchOrderBook(symbol: string, limit: number): Promise<unknown>
  fetchTrades(symbol: string, since: undefined, limit: number): Promise<readonly unknown[]>
  fetchOHLCV(symbol: string, timeframe: string, since: undefined, limit: number): Promise<readonly unknown[]>
  fetchTickers(symbols: undefined, params: object): Promise<object>
}

function ccxt(): Record<CostKind, Ask> {
  const library = createRequire(join(rivals, 'package.json'))('ccxt') as { bitget: new (options: object) => Ccxt }
  const exchange = new library.bitget({ enableRateLimit: false, options: { uta: true } })
  for (const name of Object.keys(exchange.urls.api)) exchange.urls.api[name] = url
  const unified = 'BTC/USDT:USDT'
  const market = exchange.safeMarketStructure({
    id: symbol,
    symbol: unified,
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
  return {
    orderbook: async () => Number((await exchange.fetchOrderBook(unified, 50)) !== null),
    fills: async () => (await exchange.fetchTrades(unified, undefined, 100)).length,
    candles: async () => (await exchange.fetchOHLCV(unified, '1m', undefined, 1000)).length,
    tickers: async () =>
      Object.keys(await exchange.fetchTickers(undefined, { productType: category, category })).length,
  }
}

const asks = { recorder: () => recorder()[kind], floor, ccxt: () => ccxt()[kind] }
const ask = asks[contender]()
let rows = 0
for (let i = 0; i < requests / 2; i++) rows = await ask()
const before = process.cpuUsage()
for (let i = 0; i < requests; i++) rows = await ask()
const { user, system } = process.cpuUsage(before)
process.send?.({ microseconds: (user + system) / requests, rows })
