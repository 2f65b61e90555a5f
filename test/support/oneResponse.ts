import { readFileSync } from 'node:fs'
import { afterEach } from 'vitest'
import type { ExchangeClient } from '../../src/exchange/client.js'
import { ExchangeError } from '../../src/exchange/errors.js'
import { clientOf, type FakeService, startFakeService } from './fakeService.js'

/** A service that gives one response to everything, and a client of it: new ones whenever a test says what the response is. */
export interface OneResponse {
  readonly service: FakeService
  readonly client: ExchangeClient
  answering(body: string | Buffer, status?: number, headers?: Record<string, string>): Promise<ExchangeClient>
}

/** For a test file: what a test has started is closed after it. */
export function oneResponse(): OneResponse {
  let service: FakeService | undefined
  let client: ExchangeClient | undefined
  const started = <Value>(value: Value | undefined): Value => {
    if (value === undefined) throw new Error('no response has been set')
    return value
  }
  const close = async () => {
    client?.close()
    await service?.close()
  }
  afterEach(close)
  return {
    get service() {
      return started(service)
    },
    get client() {
      return started(client)
    },
    async answering(body, status = 200, headers = {}) {
      await close()
      service = await startFakeService((_request, response) => void response.writeHead(status, headers).end(body))
      client = clientOf(service.url)
      return client
    },
  }
}

export const fixture = (name: string) =>
  readFileSync(new URL(`../fixtures/exchange/${name}`, import.meta.url), 'utf8').trimEnd()

export async function failure(request: Promise<unknown>): Promise<ExchangeError> {
  const error: unknown = await request.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(error instanceof ExchangeError)) throw new Error(`expected an ExchangeError, got ${String(error)}`)
  return error
}
