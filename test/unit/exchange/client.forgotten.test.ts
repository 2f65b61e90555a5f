import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import type { RequestEvent } from '../../../src/exchange/sender.js'
import { clientOf, envelope, startFakeService } from '../../support/fakeService.js'

test('idle connections that were forgotten on the way cost one attempt, however many they are, and each has a place of its own', async () => {
  const known = new Set<Socket>()
  const held: ServerResponse[] = []
  let isForgotten = false
  const events: RequestEvent[] = []
  const service = await startFakeService(({ socket }, response) => {
    if (isForgotten && known.has(socket)) return void socket.resetAndDestroy()
    known.add(socket)
    held.push(response)
    if (isForgotten || held.length === 8) for (const one of held.splice(0)) one.end(envelope('[]'))
  })
  const client = clientOf(service.url, {
    retry: { attempts: 2, minDelayMs: 1, maxDelayMs: 2, totalMs: 5_000 },
    onRequest: (event) => void events.push(event),
  })
  const fills = () => client.fills({ category: 'SPOT', symbol: 'BTCUSDT' })
  try {
    await Promise.all(Array.from({ length: 8 }, fills))
    isForgotten = true
    await fills()
    expect(events.slice(8).map(({ outcome, attempt }) => ({ outcome, attempt }))).toEqual([
      { outcome: 'network', attempt: 1 },
      { outcome: 'ok', attempt: 2 },
    ])
    expect(service.requests).toHaveLength(10)
    expect(client.stats().inFlight).toBe(0)
  } finally {
    client.close()
    await service.close()
  }
})
