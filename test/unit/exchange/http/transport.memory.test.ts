import { once } from 'node:events'
import net, { type AddressInfo, type Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { createTransport } from '../../../../src/exchange/http/transport.js'
import { systemClock } from '../../../../src/runtime/clock.js'

test('a response takes no more memory than its bytes, however small its pieces are', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const heldBytes = () => {
    collect()
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  }
  const pieces = 65_536
  const parts = 15
  let most = 0
  const send = async (socket: Socket) => {
    const before = heldBytes()
    socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
    for (let part = 0; part < parts; part++) {
      if (!socket.write('1\r\nx\r\n'.repeat(pieces))) await once(socket, 'drain')
      most = Math.max(most, heldBytes() - before)
    }
    socket.write('0\r\n\r\n')
  }
  const server = net.createServer((socket) => socket.once('data', () => void send(socket)))
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const transport = createTransport({ clock: systemClock, baseUrl, timeoutMs: 1_000_000, maxConnections: 1 })
  const { body } = await transport.get('fills', {}, { onSent: () => undefined, onResponse: () => undefined })
  transport.close()
  server.close()
  expect(body.toString()).toBe('x'.repeat(parts * pieces))
  // What is on its way counts, too.
  expect(most).toBeLessThan(10 * parts * pieces)
})
