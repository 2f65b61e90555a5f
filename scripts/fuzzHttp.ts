import net, { type AddressInfo } from 'node:net'
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { ExchangeError } from '../src/exchange/errors.js'
import { createTransport } from '../src/exchange/http/transport.js'
import { operations } from '../src/market/operation.js'
import { broken, cuts, type FuzzTarget, nastyText, one } from './fuzzInputs.js'
import { systemClock } from '../src/runtime/clock.js'

const encodings = ['gzip', 'x-gzip', 'deflate', 'br', 'identity', 'GZIP', '', 'zstd'] as const
const compress: Readonly<Partial<Record<string, (body: Buffer) => Buffer>>> = {
  gzip: (body) => gzipSync(body),
  'x-gzip': (body) => gzipSync(body),
  GZIP: (body) => gzipSync(body),
  deflate: (body) => deflateSync(body),
  br: (body) => brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
}
const header = fc.oneof(
  fc.constantFrom(
    'retry-after: 5',
    'retry-after: 1e9',
    'retry-after: Fri, 31 Dec 9999 23:59:59 GMT',
    'x-mbx-used-remain-limit: 7',
    'x-mbx-used-remain-limit: -7',
    'location: ',
    'transfer-encoding: chunked',
    'content-length: 5',
    'content-length: 99999999999',
    'connection: close',
    'connection: upgrade',
    '__proto__: x',
  ),
  nastyText,
)
/** The body, its encodings, whether they are true, its framing, other headers, the status line, and what is broken. */
const input = fc.tuple(
  fc.oneof(
    { weight: 9, arbitrary: fc.uint8Array({ maxLength: 2_000 }).map((bytes) => Buffer.from(bytes)) },
    // More than any operation may have, of which compression leaves little.
    { weight: 1, arbitrary: fc.constant(Buffer.alloc(17_000_000)) },
  ),
  fc.array(fc.constantFrom(...encodings), { maxLength: 3 }),
  fc.integer({ min: 0, max: 9 }),
  fc.constantFrom('length', 'length', 'length', 'chunked', 'close'),
  fc.array(header, { maxLength: 2 }),
  fc.constantFrom(
    'HTTP/1.1 200 OK',
    'HTTP/1.1 200 OK',
    'HTTP/1.0 400 No',
    'HTTP/1.1 999',
    'HTTP/1.1 100 Go on',
    'HTTP/2',
  ),
  cuts,
  fc.constantFrom(...operations),
)

/** Gives what our own HTTP over Node's is to read from a socket: rejects with an `ExchangeError`, or resolves. */
export async function httpTarget(): Promise<FuzzTarget> {
  let bytes: Buffer = Buffer.alloc(0)
  const server = net.createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => socket.end(bytes))
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const transport = createTransport({
    clock: systemClock,
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    timeoutMs: 2_000,
    maxConnections: 1,
  })
  const moments = { onSent: () => undefined, onResponse: () => undefined }
  return {
    name: 'HTTP',
    prepare(seed) {
      const [plain, chain, lie, framing, others, statusLine, changes, operation] = one(input, seed)
      const body = lie === 0 ? plain : chain.reduce<Buffer>((inner, name) => compress[name]?.(inner) ?? inner, plain)
      const headers = [...others, ...(chain.length > 0 ? [`content-encoding: ${chain.join(', ')}`] : [])]
      if (framing === 'length') headers.push(`content-length: ${body.length}`)
      if (framing === 'chunked') headers.push('transfer-encoding: chunked')
      const [before, after] = framing === 'chunked' ? [`${body.length.toString(16)}\r\n`, '\r\n0\r\n\r\n'] : ['', '']
      const head = [statusLine, ...headers, '', before].join('\r\n')
      bytes = broken(Buffer.concat([Buffer.from(head), body, Buffer.from(after)]), changes)
      return async () => {
        try {
          await transport.get(operation, { symbol: 'BTCUSDT' }, moments)
          return 'taken'
        } catch (error) {
          if (error instanceof ExchangeError) return 'refused'
          throw error
        }
      }
    },
    async close() {
      transport.close()
      await new Promise((resolve) => void server.close(resolve))
    },
  }
}
