import { readFileSync } from 'node:fs'
import { afterEach } from 'vitest'
import type { ExchangeClient } from '../../src/exchange/client.js'
import { ExchangeError } from '../../src/exchange/errors.js'
import { clientOf, type FakeService, startFakeService } from './fakeService.js'

/** The service and its client of the running test. */
export let service: FakeService
export let client: ExchangeClient

afterEach(async () => {
  client.close()
  await service.close()
})

/** A client of a service that gives this response to everything. */
export async function answering(
  body: string,
  status = 200,
  headers: Record<string, string> = {},
): Promise<ExchangeClient> {
  service = await startFakeService((_request, response) => void response.writeHead(status, headers).end(body))
  client = clientOf(service.url)
  return client
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
