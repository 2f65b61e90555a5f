import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { createExchangeClient, type ExchangeClient, type ExchangeOptions } from '../../src/exchange/client.js'
import { type Clock, systemClock } from '../../src/runtime/clock.js'
import { type Operation, operations } from '../../src/market/operation.js'
import { createLogger } from '../../src/runtime/logger.js'
import type { Right } from '../../src/runtime/right.js'
import { TestRight } from './rights.js'

export type Handler = (request: http.IncomingMessage, response: http.ServerResponse, url: URL) => void | Promise<void>

export interface FakeService {
  readonly url: string
  /** Every request so far, as path and query. */
  readonly requests: readonly string[]
  close(): Promise<void>
}

/** An HTTP server on a free loopback port that answers with whatever a test wants to see handled. */
export async function startFakeService(handler: Handler): Promise<FakeService> {
  const requests: string[] = []
  const server = http.createServer((request, response) => {
    requests.push(request.url ?? '')
    void handler(request, response, new URL(request.url ?? '', 'http://service'))
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** The success envelope around `data`, which is JSON text so that numbers keep their digits. */
export function envelope(data: string, requestTime = 1_800_000_000_000): string {
  return `{"code":"00000","msg":"success","requestTime":${requestTime},"data":${data}}`
}

export const limitsOf = (perSecond: number, overallPerMinute = 60_000): ExchangeOptions['limits'] => ({
  overallPerMinute,
  perSecond: Object.fromEntries(operations.map((operation) => [operation, perSecond])) as Record<Operation, number>,
})

/** Believes the time of every response: those of tests are made up. */
export const believing: ExchangeOptions['serviceClock'] = {
  judge: ({ requestTime }) => ({ isBelieved: true, serviceTime: requestTime }),
  now: () => Date.now(),
}

/** Longer than a new client keeps still for what a predecessor may have sent from the same address a moment ago. */
const pastTheStartMs = 1_000

/** A client whose limits and delays are out of a test's way, as is its wait at the start. */
export function clientOf(
  baseUrl: string,
  { right = new TestRight(), ...more }: Partial<ExchangeOptions> & { readonly right?: Right } = {},
): ExchangeClient {
  let aheadMs = 0
  const clock: Clock = { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + aheadMs }
  const client = createExchangeClient(right, {
    clock,
    logger: createLogger('silent'),
    baseUrl,
    timeoutMs: 60_000,
    maxConnections: 16,
    limits: limitsOf(1_000),
    latencyJitterMs: 0,
    retry: { attempts: 1, minDelayMs: 1, maxDelayMs: 5, totalMs: 120_000 },
    serviceClock: believing,
    ...more,
  })
  aheadMs = pastTheStartMs
  return client
}
