import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { askRecorder } from '../../../src/cli/status.js'

let server: Server | undefined
afterEach(async () => {
  server?.closeAllConnections()
  await new Promise((resolve) => (server === undefined ? resolve(null) : server.close(resolve)))
})

async function serving(listener: RequestListener): Promise<string> {
  server = createServer(listener)
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test.each(['{}', '[]', 'null', '<html>', '', '{"problems":[]}'])('what is no status is named: %s', async (body) => {
  const url = await serving((_, response) => response.end(body))
  await expect(askRecorder(url, undefined)).rejects.toThrow(
    `no recorder responds at ${url}: what it says is no status of this version; is it another program, or version?`,
  )
})

test('a response without an end is given up at ten million bytes', async () => {
  let sent = 0
  const url = await serving((_, response) => {
    const part = 'x'.repeat(100_000)
    const more = () => {
      while (response.write(part)) sent += part.length
      sent += part.length
    }
    response.on('drain', more)
    more()
  })
  await expect(askRecorder(url, undefined)).rejects.toThrow(/longer than 10000000 bytes; is it a recorder\?|timeout/)
  expect(sent).toBeLessThan(100_000_000)
})
