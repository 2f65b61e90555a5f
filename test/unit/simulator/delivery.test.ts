import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { deliver, type Delivered } from '../../../src/simulator/delivery.js'

const answer = { status: 200, headers: {}, body: ['[1,', '2]'] }

/** What is said of an answer to one request. */
async function deliverOne(cut: boolean): Promise<{ said: Delivered | undefined; received: string | undefined }> {
  let said: Delivered | undefined
  const server = createServer((request, response) => {
    if (cut) request.socket.destroy()
    deliver(response, answer, (delivered) => {
      said = delivered
    })
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  const received = await fetch(`http://127.0.0.1:${port}`).then(
    (response) => response.text(),
    () => undefined,
  )
  await new Promise((resolve) => {
    server.close(resolve)
    server.closeAllConnections()
  })
  return { said, received }
}

test('an answer is complete when the connection has taken all of it', async () => {
  expect(await deliverOne(false)).toEqual({ said: 'complete', received: '[1,2]' })
})

test('an answer on a connection that has just been cut is not, although the response finishes', async () => {
  expect(await deliverOne(true)).toEqual({ said: 'torn', received: undefined })
})
