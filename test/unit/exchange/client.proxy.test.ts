import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { egressOf } from '../../../src/app.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { hasOpenssl, makeCertificate } from '../../support/certificate.js'
import { clientOf, envelope, startFakeService } from '../../support/fakeService.js'
import { type Proxy, startProxy } from '../../support/proxy.js'

let proxy: Proxy

beforeEach(async () => {
  proxy = await startProxy('re corder:p@ss')
})

afterEach(async () => {
  vi.unstubAllEnvs()
  await proxy.close()
})

const urlOf = (login: string) => `http://${login}127.0.0.1:${proxy.port}`

describe('through a proxy', () => {
  it('requests over plain HTTP are forwarded, with the login of the proxy', async () => {
    const service = await startFakeService((_request, response) => void response.end(envelope('[]', 42)))
    const client = clientOf(service.url, { proxy: urlOf('re%20corder:p%40ss@') })
    for (let i = 0; i < 3; i++) expect((await client.rpiSymbols()).requestTime).toBe(42)
    client.close()
    await service.close()
    const target = `${service.url}/api/v3/market/rpi-symbols`
    expect(proxy.seen).toEqual(Array.from({ length: 3 }, () => ({ method: 'GET', target, login: 're corder:p@ss' })))
  })

  it.skipIf(!hasOpenssl)('requests over HTTPS go through a tunnel that is kept', async () => {
    // The certificate of the service is its own: without this it would be refused, through a proxy as well.
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
    const server = https.createServer(makeCertificate(), (_request, response) => void response.end(envelope('[]', 42)))
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const client = clientOf(`https://127.0.0.1:${port}`, { proxy: urlOf('re%20corder:p%40ss@') })
    for (let i = 0; i < 5; i++) expect((await client.rpiSymbols()).requestTime).toBe(42)
    expect(proxy.seen.length).toBeLessThanOrEqual(2)
    expect(proxy.seen[0]).toEqual({ method: 'CONNECT', target: `127.0.0.1:${port}`, login: 're corder:p@ss' })
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '1')
    const strict = clientOf(`https://127.0.0.1:${port}`, { proxy: urlOf('re%20corder:p%40ss@') })
    await expect(strict.rpiSymbols()).rejects.toThrow(/self-signed certificate/)
    client.close()
    strict.close()
    server.closeAllConnections()
    server.close()
  })

  it.each([
    ['that does not admit us', 'http', 'wrong:login@', /407/],
    ['that does not admit us to a tunnel', 'https', 'wrong:login@', /407/],
  ])('%s, a request fails and says so', async (_name, protocol, login, message) => {
    const client = clientOf(`${protocol}://127.0.0.1:9`, { proxy: urlOf(login) })
    const error: unknown = await client.rpiSymbols().catch((reason: unknown) => reason)
    client.close()
    expect(error).toMatchObject({ kind: 'network', message: expect.stringMatching(message) as string })
    expect((error as Error).message).not.toContain('login')
  })

  it('that is not there, a request fails and says so', async () => {
    await proxy.close()
    const client = clientOf('http://127.0.0.1:9', { proxy: urlOf('') })
    await expect(client.rpiSymbols()).rejects.toThrow(`network: connection refused: 127.0.0.1:${proxy.port}`)
    client.close()
    proxy = await startProxy('')
  })
})

it('each proxy is an address of its own', () => {
  const egress = (env: Record<string, string>) => egressOf(loadConfig({ env }))
  expect(egress({ EXCHANGE_PROXY: 'http://a:secret@one.example:3128' })).toBe('proxy one.example:3128')
  expect(egress({ EXCHANGE_PROXY: 'http://two.example', COLLECTOR_EGRESS: 'mine' })).toBe('mine')
})
