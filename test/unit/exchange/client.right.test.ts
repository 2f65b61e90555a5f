import dns, { type LookupAddress } from 'node:dns'
import { afterEach, expect, test, vi } from 'vitest'
import { clientOf, envelope, startFakeService } from '../../support/fakeService.js'
import { TestRight } from '../../support/rights.js'

afterEach(() => void vi.restoreAllMocks())

test('a request that waits for its connection while the right to send is lost leaves when it is back', async () => {
  let found: (addresses: LookupAddress[]) => void = () => undefined
  const looking = new Promise<LookupAddress[]>((resolve) => (found = resolve))
  const lookup = vi.spyOn(dns.promises, 'lookup').mockReturnValue(looking as never)
  const service = await startFakeService((_request, response) => void response.end(envelope('[]')))
  const right = new TestRight()
  const outcomes: string[] = []
  const repeated = vi.fn()
  const client = clientOf(service.url.replace('127.0.0.1', 'service.test'), {
    retry: { attempts: 2, minDelayMs: 1, maxDelayMs: 2, totalMs: 10_000 },
    right,
    onRequest: ({ outcome }) => void outcomes.push(outcome),
    onRepeated: repeated,
  })
  try {
    const response = client.fills({ category: 'SPOT', symbol: 'BTCUSDT' })
    await vi.waitFor(() => expect(lookup).toHaveBeenCalled(), 120_000)
    right.take()
    found([{ address: '127.0.0.1', family: 4 }])
    await vi.waitFor(() => expect(outcomes).toHaveLength(1), 120_000)
    expect(service.requests).toEqual([])
    right.give()
    expect((await response).rows).toEqual([])
    expect(outcomes).toEqual(['not-sent', 'ok'])
    // Nothing was sent, so nothing can be wrong with the network.
    expect(repeated).not.toHaveBeenCalled()
  } finally {
    client.close()
    await service.close()
  }
})
