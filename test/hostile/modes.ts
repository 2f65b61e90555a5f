import type { IncomingMessage, ServerResponse } from 'node:http'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import type { Operation } from '../../src/market/operation.js'

/** A request that is answered by the attacker, with what an honest service would have said. */
export interface Attacked {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly honest: string
}

export interface Mode {
  readonly name: string
  /** All operations without it. */
  readonly operation?: Operation
  attack(attacked: Attacked): void
}

/** What no stored row may hold: each mode that sends it gives a reason to refuse the row. */
export const evilPrice = '666.666666'

const year4000 = Date.UTC(4000, 0, 1)
const year9999 = Date.UTC(9999, 0, 1)

const send =
  (body: string | Buffer, headers: Record<string, string> = {}, status = 200) =>
  ({ response }: Attacked) =>
    void response.writeHead(status, headers).end(body)

const success = (data: string, requestTime: number | string = Date.now(), more = '') =>
  `{"code":"00000","msg":"success","requestTime":${requestTime},"data":${data}${more}}`
const answer = (data: () => string) => (attacked: Attacked) => send(success(data()))(attacked)

const ticker = (more: string) => `{"category":"SPOT","symbol":"BTCUSDT","lastPrice":"${evilPrice}",${more}}`
/** Only what a row can do without is wrong with it: the row is stored without that. */
const halfGood = (more: string) => ticker(more).replace(evilPrice, '555.5')
const ts = () => `"ts":"${Date.now()}"`
const tickers = (name: string, row: () => string): Mode => ({
  name,
  operation: 'tickers',
  attack: answer(() => `[${row()}]`),
})
const body = (name: string, text: () => string | Buffer, headers: Record<string, string> = {}, status = 200): Mode => ({
  name,
  operation: 'tickers',
  attack: (attacked) => send(text(), headers, status)(attacked),
})
const book = (name: string, data: () => string): Mode => ({ name, operation: 'orderbook', attack: answer(data) })
const fills = (name: string, rows: () => string): Mode => ({
  name,
  operation: 'fills',
  attack: answer(() => `[${rows()}]`),
})
const fill = (more: string) => `{"execId":"evil","price":"${evilPrice}","size":"1","side":"buy",${more}}`
const bytes = (count: number, text = 'x') => text.repeat(Math.ceil(count / text.length))

let turn = 0

/** Clocks, rows, texts and framings that are wrong in one way each. */
export const modes: readonly Mode[] = [
  // Clocks
  body('a requestTime in the year 4000', () => success(`[${ticker(ts())}]`, year4000)),
  body('a requestTime of yesterday', () => success(`[${ticker(ts())}]`, Date.now() - 86_400_000)),
  body('a requestTime that jumps back and forth', () =>
    success(`[${ticker(ts())}]`, Date.now() + (turn++ % 2 === 0 ? 3_600_000 : -3_600_000)),
  ),
  body('a requestTime of 1e308', () => success(`[${ticker(ts())}]`, '1e308')),
  {
    name: 'instruments of the year 4000',
    operation: 'instruments',
    attack: ({ response }) => void response.end(success(`[{"category":"SPOT","symbol":"EVIL${evilPrice}"}]`, year4000)),
  },
  tickers('a ticker of the year 9999', () => ticker(`"ts":"${year9999}"`)),
  tickers('a ticker of 1970', () => ticker('"ts":"5"')),
  fills('a fill of the year 9999', () => fill(`"ts":"${year9999}"`)),
  fills('a fill of 1970', () => fill('"ts":"1"')),
  book('a book of the year 9999', () => `{"a":[["${evilPrice}","1"]],"b":[],"ts":"${year9999}"}`),
  // Rows
  tickers('a row with 20,000 unknown fields, of another category', () =>
    ticker(`"category":"MARGIN",${Array.from({ length: 20_000 }, (_, i) => `"f${i}":1`).join(',')},"ts":"${year9999}"`),
  ),
  tickers('a row of a megabyte', () => ticker(`${ts()},"note":"${bytes(1_000_000)}"`)),
  body('700,000 bad rows', () => success(`[${bytes(14_000_000, '{"symbol":1.50,"a":2},')}{}]`)),
  body('millions of empty rows', () => success(`[${bytes(9_000_000, '{},')}{}]`)),
  tickers('nesting of 100,000 levels', () => halfGood(`${ts()},"x":${bytes(100_000, '[')}${bytes(100_000, ']')}`)),
  tickers('wrong types everywhere', () => `{"category":7,"symbol":["${evilPrice}"],"lastPrice":{},"ts":true}`),
  tickers('rows that are no objects', () => `null,1,"x",[],true,[[${evilPrice}]]`),
  tickers('NaN and Infinity as text', () => halfGood(`${ts()},"bid1Price":"NaN","ask1Price":"Infinity"`)),
  tickers('a decimal of 1e999999', () => halfGood(`${ts()},"bid1Price":1e999999`)),
  tickers('a decimal of a million digits', () => halfGood(`${ts()},"bid1Price":${bytes(200_000, '12345')}`)),
  tickers('a symbol with control characters', () => ticker(`${ts()},"symbol":"\\u0000\\u001b[2J"`)),
  tickers('a symbol of 600 characters', () => ticker(`${ts()},"symbol":"${bytes(600)}"`)),
  tickers('half a surrogate pair', () => ticker(`${ts()},"symbol":"\\ud800"`)),
  tickers('an empty symbol', () => ticker(`${ts()},"symbol":""`)),
  tickers('prototype keys', () =>
    halfGood('"__proto__":{"lastPrice":"1"},"constructor":{"prototype":{"x":1}},"ts":true'),
  ),
  tickers('rows of another category', () =>
    ticker(`${ts()},"category":"USDC-FUTURES"`).replace('"category":"SPOT",', ''),
  ),
  tickers('an unknown category', () => ticker(`${ts()},"category":"EVIL"`)),
  fills('fills without a side', () => fill(ts()).replace('"side":"buy",', '')),
  fills('100,000 fills', () => Array.from({ length: 30_000 }, () => fill('"ts":"0"')).join(',')),
  book('a book of 20,000 levels', () => `{"a":[${bytes(400_000, `[${evilPrice},1],`)}[1,1]],"b":[],"ts":"1"}`),
  book('a book with levels that are no numbers', () => `{"a":[["x","${evilPrice}"]],"b":[[]],"ts":"${Date.now()}"}`),
  book('an array for a book', () => `[{"a":[],"b":[]}]`),
  // Envelopes
  body('no JSON', () => `<html><title>${evilPrice}</title></html>`),
  body('an empty body', () => ''),
  body('half of an answer', () => success(`[${ticker(ts())}]`).slice(0, -20)),
  body('bad UTF-8', () =>
    Buffer.concat([Buffer.from('{"code":"00000","data":[{"symbol":"'), Buffer.from([0xc3, 0x28, 0xff])]),
  ),
  body('equal keys', () => success(`[${ticker(ts())}]`, Date.now(), ',"data":"nothing","data":null')),
  body('a code that is a number', () => success('[]').replace('"00000"', '0')),
  body('a failure with data', () => success(`[${ticker(ts())}]`).replace('00000', '40034')),
  body('codes that are names of methods', () => success('[]').replace('00000', '__proto__')),
  body('an older envelope', () => '{"status":"error","err_code":"1","err_msg":"\\u001b[31mno\\u202e"}'),
  body('JSON that is no object', () => '[[[]]]'),
  // Compression and framing
  body('a gzip bomb', () => gzipBomb, { 'content-encoding': 'gzip' }),
  body('a brotli bomb', () => brotliBomb, { 'content-encoding': 'br' }),
  body('broken gzip', () => Buffer.from('not gzip at all'), { 'content-encoding': 'gzip' }),
  body('a redirect', () => '', { location: 'http://127.0.0.1:1/evil' }, 302),
  body('a redirect without end', () => '', { location: '/api/v3/market/tickers' }, 307),
  body('cookies', () => `{"code":"1","msg":"x"}`, { 'set-cookie': bytes(4_000) }),
  body('limits that lie', () => `{"code":"1","msg":"x"}`, { 'x-mbx-used-remain-limit': '-5, 99999999999' }),
  raw('too many headers', (response) => `HTTP/1.1 200 OK\r\n${bytes(200_000, 'x-evil: 1\r\n')}${response}`),
  raw('no HTTP', () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS, not HTTP'),
  raw('a length that is too long', () => `HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n{"code"`),
  raw('two lengths', () => `HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 9\r\n\r\n{}`),
  raw('a broken chunk', () => `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}`),
  raw('a thousand informational answers', () => bytes(25_000, 'HTTP/1.1 102 Processing\r\n\r\n')),
  { name: 'a connection that is cut', operation: 'tickers', attack: ({ request }) => request.socket.resetAndDestroy() },
  {
    name: 'a connection that is closed without a word',
    operation: 'tickers',
    attack: ({ request }) => void request.socket.end(),
  },
  raw(
    'a response that switches protocols',
    () => 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  ),
  { name: 'no answer', operation: 'tickers', attack: () => undefined },
  { name: 'a body that drips', operation: 'tickers', attack: ({ response }) => drip(response, ' ', 50) },
  {
    name: 'a body without end',
    operation: 'tickers',
    attack: ({ response }) => drip(response, bytes(65_536, '[ '), 1),
  },
  {
    name: 'every connection closed after its answer',
    operation: 'tickers',
    attack: ({ response, honest }) => void response.writeHead(200, { connection: 'close' }).end(honest),
  },
]

/** These make all of the recorder pause, and so they come last. */
export const pausingModes: readonly Mode[] = [
  body('429 without end, to be repeated in a thousand years', () => '', { 'retry-after': '31536000000' }, 429),
  body('a block with a page', () => '<html>Checking your browser</html>', {}, 403),
  body('503 with a Retry-After of a word', () => '', { 'retry-after': 'never' }, 503),
]

const gzipBomb = gzipSync(Buffer.alloc(200_000_000))
// The best quality takes seven seconds and is no smaller.
const brotliBomb = brotliCompressSync(Buffer.alloc(200_000_000), { params: { [constants.BROTLI_PARAM_QUALITY]: 3 } })

function raw(name: string, text: (tail: string) => string): Mode {
  return {
    name,
    operation: 'tickers',
    attack: ({ request }) => {
      const tail = '\r\n{}'
      request.socket.end(text(tail))
    },
  }
}

function drip(response: ServerResponse, piece: string, everyMs: number): void {
  response.writeHead(200)
  const timer = setInterval(() => {
    if (response.destroyed || response.writableLength > 1_000_000) return
    response.write(piece)
  }, everyMs)
  response.on('close', () => clearInterval(timer))
}
