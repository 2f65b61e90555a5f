import { createServer as createPlain, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createEncrypted } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createTransport } from '../../../../src/exchange/http/transport.js'
import { systemClock } from '../../../../src/runtime/clock.js'
import { hasOpenssl, makeCertificate } from '../../../support/certificate.js'

const patience = { timeout: 120_000 }

/** A service that gives no response for fills, and a transport with one connection to it. Tells how connections ended. */
async function setUp(protocol: string) {
  vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
  const ends: string[] = []
  const onConnection = (socket: Socket) => {
    socket.on('error', (error) => ends.push((error as NodeJS.ErrnoException).code ?? ''))
    socket.on('end', () => ends.push('end'))
  }
  const requests: string[] = []
  const respond = ({ url = '' }: IncomingMessage, response: ServerResponse) => {
    const [, name = ''] = /([^/]+)$/.exec(url) ?? []
    requests.push(name)
    if (name !== 'fills') response.end('{}')
  }
  const server = protocol === 'http' ? createPlain(respond) : createEncrypted(makeCertificate(), respond)
  server.on(protocol === 'http' ? 'connection' : 'secureConnection', onConnection)
  server.on('clientError', () => undefined)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const timers = new Set<() => void>()
  const after = (_ms: number, fire: () => void) => {
    timers.add(fire)
    return () => void timers.delete(fire)
  }
  const transport = createTransport({
    clock: { ...systemClock, after },
    baseUrl: `${protocol}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    timeoutMs: 10_000,
    maxConnections: 1,
  })
  onTestFinished(() => {
    vi.unstubAllEnvs()
    transport.close()
    server.close()
  })
  const moments = { onSent: () => undefined, onResponse: () => undefined }
  /** Sends a request that has no response, and lets its time pass once it is there. */
  const giveUp = async () => {
    const request = transport.get('fills', {}, moments)
    await vi.waitFor(() => expect(requests).toContain('fills'), patience)
    // What has come is read before the request is given up, so a second timer follows the first.
    for (let i = 0; i < 2; i++)
      for (const fire of timers) {
        timers.delete(fire)
        fire()
      }
    await expect(request).rejects.toMatchObject({ kind: 'timeout' })
  }
  return { transport, moments, ends, requests, giveUp }
}

const protocols = hasOpenssl ? ['http', 'https'] : ['http']

test.each(protocols)('a request that is given up is sent no more: its connection is reset (%s)', async (protocol) => {
  const { ends, requests, giveUp } = await setUp(protocol)
  await giveUp()
  await vi.waitFor(() => expect(ends).toEqual(['ECONNRESET']), patience)
  expect(requests).toEqual(['fills'])
})

test.each(protocols)('so is one on a connection that carried a response before it (%s)', async (protocol) => {
  const { transport, moments, ends, requests, giveUp } = await setUp(protocol)
  await transport.get('tickers', {}, moments)
  await giveUp()
  await vi.waitFor(() => expect(ends).toEqual(['ECONNRESET']), patience)
  expect(requests).toEqual(['tickers', 'fills'])
})

test.each(protocols)('a request that may not leave ends its connection in order (%s)', async (protocol) => {
  const { transport, moments, ends, requests } = await setUp(protocol)
  await transport.get('tickers', {}, moments)
  const request = transport.get('fills', {}, { ...moments, mayLeave: () => false })
  await expect(request).rejects.toMatchObject({ kind: 'not-sent' })
  await vi.waitFor(() => expect(ends).toEqual(['end']), patience)
  expect(requests).toEqual(['tickers'])
})
