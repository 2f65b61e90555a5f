import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { startSimulator } from '../../src/simulator/server.js'
import { childOptions } from '../tools/processes.js'
import { costKinds, pathOf } from './client.js'

// A process of its own that serves bodies which are made once: what it costs must not count as a client's.
childOptions()

/** Number of tickers in the largest list of futures. */
const tickerCount = 800

const simulator = await startSimulator({ scale: 'small', limits: { enforce: false } })
const bodies = new Map<string, Buffer>()
for (const kind of costKinds) {
  const text = await (await fetch(`${simulator.url}${pathOf(kind)}`)).text()
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
  process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
