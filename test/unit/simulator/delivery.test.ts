import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { Agent, createServer, get } from 'node:http'
import { type AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { expect, test, vi } from 'vitest'
import { confirmPrevious, connectionsLookedAt, deliver, type Outcome } from '../../../src/simulator/delivery.js'

const answer = { status: 200, headers: {}, body: ['[1,', '2]'] }

/** What is said of an answer to one request. */
async function deliverOne(cut: boolean): Promise<{ said: Outcome | undefined; received: string | undefined }> {
  let said: Outcome | undefined
  const server = createServer((request, response) => {
    if (cut) request.socket.destroy()
    deliver(response, answer, (outcome) => {
      said ??= outcome
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

test('it is told when the client closes the connection after an answer, without asking for anything else on it', async () => {
  const said: Outcome[][] = []
  const server = createServer((_request, response) => {
    const outcomes: Outcome[] = []
    said.push(outcomes)
    deliver(response, answer, (outcome) => outcomes.push(outcome))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  for (let i = 0; i < 2; i++) {
    const [response] = (await once(get({ port: (server.address() as AddressInfo).port, agent }), 'response')) as [
      Readable,
    ]
    expect(await text(response)).toBe('[1,2]')
  }
  agent.destroy()
  await vi.waitFor(() => expect(said).toEqual([['complete'], ['complete', 'closed after']]), 120_000)
  server.close()
})

test('an answer stays complete when the client asks again on the connection, and resets it without a further answer', async () => {
  const said: Outcome[] = []
  const closed = new Promise<void>((resolve) => {
    const server = createServer(({ socket, url }, response) => {
      confirmPrevious(socket)
      if (url === '/first') return deliver(response, answer, (outcome) => said.push(outcome))
      socket.once('close', () => server.close(() => resolve()))
      client.resetAndDestroy()
    })
    server.listen(0, '127.0.0.1')
    const client = new Socket()
    const ask = (path: string) => client.write(`GET ${path} HTTP/1.1\r\nHost: test\r\n\r\n`)
    client.once('data', () => ask('/second'))
    server.once('listening', () => {
      client.connect((server.address() as AddressInfo).port, '127.0.0.1', () => ask('/first'))
    })
  })
  await closed
  expect(said).toEqual(['complete'])
})

/** A client that goes away: without looking for the answer, or with the answer unread before it. Then it makes a file. */
const impatient = (port: number, when: 'before the answer' | 'with the answer unread', gone: string) => `
  const socket = require('node:net').connect(${port}, '127.0.0.1')
  if (${when === 'with the answer unread'}) socket.pause()
  socket.on('close', () => require('node:fs').writeFileSync(${JSON.stringify(gone)}, ''))
  socket.write('GET / HTTP/1.1\\r\\nHost: test\\r\\n\\r\\n', () => {
    setTimeout(() => socket.destroy(), ${when === 'before the answer' ? 50 : 400})
  })`

test.for(['before the answer', 'with the answer unread'] as const)(
  'an answer to a client that gave up %s is not complete, although this process was too busy to see it',
  async (when) => {
    let said: Outcome | undefined
    const gone = join(mkdtempSync(join(tmpdir(), 'delivery-')), 'gone')
    const server = createServer((_request, response) => {
      const until = performance.now() + 200
      const isOver = () => performance.now() >= until && (when !== 'before the answer' || existsSync(gone))
      while (!isOver()) continue
      void connectionsLookedAt().then(() =>
        deliver(response, answer, (outcome) => {
          said = outcome
        }),
      )
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const client = spawn(process.execPath, ['-e', impatient(port, when, gone)], { stdio: 'ignore' })
    await once(client, 'exit')
    await vi.waitFor(() => expect(said).toBe('torn'), 120_000)
    await new Promise((resolve) => {
      server.close(resolve)
      server.closeAllConnections()
    })
    rmSync(dirname(gone), { recursive: true })
  },
)
