import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import type { RequestEvent } from '../../../src/exchange/sender.js'
import { clientOf, envelope, startFakeService } from '../../support/fakeService.js'

test('idle connections that were forgotten on the way cost attempts and no request', async () => {
  const known = new Set<Socket>()
  const held: ServerResponse[] = []
  let isForgotten = false
  const events: RequestEvent[] = []
  const service = await startFakeService(({ socket }, response) => {
    if (isForgotten && known.has(socket)) return void socket.resetAndDestroy()
    if (!isForgotten) known.add(socket)
    held.push(response)
    if (isForgotten || held.length === 8) for (const one of held.splice(0)) one.end(envelope('[]'))
  })
  const client = clientOf(service.url, {
    retry: { attempts: 4, minDelayMs: 20, maxDelayMs: 40, totalMs: 5_000 },
    onRequest: (event) => void events.push(event),
  })
  const fills = () => client.fills({ category: 'SPOT', symbol: 'BTCUSDT' })
  try {
    await Promise.all(Array.from({ length: 8 }, fills))
    isForgotten = true
    expect(await Promise.all(Array.from({ length: 8 }, fills))).toHaveLength(8)
    const later = events.slice(8)
    expect(later.filter(({ outcome }) => outcome === 'ok')).toHaveLength(8)
    // One request finds out for all: what is idle then is not tried again.
    const failed = later.filter(({ outcome }) => outcome === 'network').length
    expect(failed).toBeGreaterThan(0)
    expect(failed).toBeLessThanOrEqual(8)
    expect(client.stats().inFlight).toBe(0)
  } finally {
    client.close()
    await service.close()
  }
})
