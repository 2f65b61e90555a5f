import { gzipSync } from 'node:zlib'
import net, { type AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { headerParts } from '../../../../src/exchange/http/adapter.js'
import { createTransport } from '../../../../src/exchange/http/transport.js'
import type { RawResponse } from '../../../../src/exchange/response.js'
import { systemClock } from '../../../../src/runtime/clock.js'

/** Sends one response with these headers, line by line, and returns what the transport makes of it. */
async function responseWith(headers: readonly string[], body: Buffer | string = '[]'): Promise<RawResponse> {
  const head = ['HTTP/1.1 200 OK', ...headers, `content-length: ${body.length}`, '', ''].join('\r\n')
  const server = net.createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => void socket.write(Buffer.concat([Buffer.from(head), Buffer.from(body)])))
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const clock = { ...systemClock, now: () => Date.UTC(2026, 2, 4, 12) }
  const transport = createTransport({ clock, baseUrl, timeoutMs: 10_000, maxConnections: 1 })
  try {
    return await transport.get('fills', {}, { onSent: () => undefined, onResponse: () => undefined })
  } finally {
    transport.close()
    server.close()
  }
}

const inAMinute = 'Wed, 04 Mar 2026 12:01:00 GMT'
test.each([
  [['retry-after: 40'], 40_000],
  [['retry-after: 40', 'retry-after: 70'], 70_000],
  [['retry-after: 70, 40'], 70_000],
  [['retry-after: soon', 'retry-after: 40'], 40_000],
  [[`retry-after: ${inAMinute}`], 60_000],
  [[`retry-after: ${inAMinute}`, 'retry-after: 40'], 60_000],
  [[`retry-after: 90, ${inAMinute}`], 90_000],
  [['retry-after: soon'], undefined],
  [['retry-after: -5'], undefined],
  [[], undefined],
])('of several waits the longest counts: %j', async (headers, retryAfterMs) => {
  expect(await responseWith(headers)).toMatchObject({ retryAfterMs })
})

test('of several counts of what is left the smallest counts', async () => {
  const name = 'x-mbx-used-remain-limit'
  expect(await responseWith([`${name}: 7`, `${name}: 19`])).toMatchObject({ remaining: 7 })
  expect(await responseWith([`${name}: -7, 19`])).toMatchObject({ remaining: 19 })
  expect(await responseWith([])).toMatchObject({ remaining: undefined })
})

test.each([
  [['content-encoding: gzip', 'content-encoding: identity'], 1],
  [['content-encoding: Identity, gzip'], 1],
  [['content-encoding: gzip', 'content-encoding: x-gzip'], 2],
  [['content-encoding: gzip, gzip, gzip', 'content-encoding: gzip'], 4],
  [['content-encoding:'], 0],
])('a body is decoded by all encodings: %j', async (headers, rounds) => {
  let body = Buffer.from('[1]')
  for (let round = 0; round < rounds; round++) body = gzipSync(body)
  expect((await responseWith(headers, body)).body.toString()).toBe('[1]')
})

test.each(['gzip, zstd', 'gzip, __proto__', 'gzip, gzip, gzip, gzip, gzip'])(
  'a body stays as it is: %s',
  async (encodings) => {
    const body = gzipSync('[1]')
    expect((await responseWith([`content-encoding: ${encodings}`], body)).body).toEqual(body)
  },
)

test('a header is a text, several, or none', () => {
  expect(headerParts(undefined)).toEqual([])
  expect(headerParts(['a', ' b ,, c'])).toEqual(['a', 'b', 'c'])
  expect(headerParts('Wednesday, 04-Mar-26 12:01:00 GMT')).toHaveLength(1)
})
