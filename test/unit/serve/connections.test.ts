import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createBoundedServer } from '../../../src/serve/connections.js'

/** Sends so many requests at once on one connection. Resolves to the number of responses when it is closed or all are there. */
async function responsesTo(count: number): Promise<{ responses: number; handled: number }> {
  let handled = 0
  const server = createBoundedServer((_, response) => {
    handled += 1
    // All of the body is there before the response ends, as with a stream.
    response.writeHead(200, { 'content-length': 2 }).write('ok')
    void sleep(20).then(() => response.end())
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  let text = ''
  socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
  const responses = () => text.split('HTTP/1.1 200').length - 1
  try {
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(count))
    await Promise.race([
      once(socket, 'close'),
      (async () => {
        while (responses() < count) await sleep(5)
      })(),
    ])
    return { responses: responses(), handled }
  } finally {
    socket.destroy()
    server.close()
  }
}

test('a request that comes as the response before it ends gets its response on the same connection', async () => {
  expect(await responsesTo(2)).toEqual({ responses: 2, handled: 2 })
})

test('a client that sends several ahead gets one response, and the connection is closed', async () => {
  expect(await responsesTo(10)).toEqual({ responses: 1, handled: 1 })
})
