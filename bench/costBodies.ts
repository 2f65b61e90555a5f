import { createServer } from 'node:http'
import { startSimulator } from '../src/simulator/server.js'

/** The responses whose cost is measured, by operation. */
export const costKinds = ['orderbook', 'fills', 'candles', 'tickers'] as const
export type CostKind = (typeof costKinds)[number]

/** So many tickers does the largest list of futures have. */
const tickerCount = 800

// A process of its own: it serves bodies that are made once, so that what it costs is nobody's. It says where it
// listens by a message and ends with the process that started it.
const simulator = await startSimulator({ scale: 'small', limits: { enforce: false } })
const category = 'USDT-FUTURES'
const queries: Record<CostKind, string> = {
  orderbook: `orderbook?category=${category}&symbol=BTCUSDT&limit=50`,
  fills: `fills?category=${category}&symbol=BTCUSDT&limit=100`,
  candles: `candles?category=${category}&symbol=BTCUSDT&interval=1m&limit=1000`,
  tickers: `tickers?category=${category}`,
}
const bodies = new Map<string, Buffer>()
for (const kind of costKinds) {
  const response = await fetch(`${simulator.url}/api/v3/market/${queries[kind]}`)
  const text = await response.text()
  bodies.set(kind, Buffer.from(kind === 'tickers' ? withManyTickers(text) : text))
}
await simulator.close()

function withManyTickers(text: string): string {
  const envelope = JSON.parse(text) as { data: { symbol: string }[] }
  const { data } = envelope
  envelope.data = Array.from({ length: tickerCount }, (_, index) => {
    const row = data[index % data.length] as { symbol: string }
    return index < data.length ? row : { ...row, symbol: `${row.symbol.replace(/USDT$/, '')}${index}USDT` }
  })
  return JSON.stringify(envelope)
}

const server = createServer((request, response) => {
  const operation = /market\/([a-z-]+)/.exec(request.url ?? '')?.[1] ?? ''
  const body = bodies.get(operation)
  response.writeHead(body === undefined ? 404 : 200, {
    'content-type': 'application/json',
    'content-length': body?.length ?? 0,
    'x-mbx-used-remain-limit': '9999',
  })
  response.end(body)
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (typeof address === 'object' && address !== null) process.send?.(`http://127.0.0.1:${address.port}`)
})
process.once('disconnect', () => process.exit(0))
