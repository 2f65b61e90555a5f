import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import type { RequestEvent } from '../../../src/exchange/sender.js'
import { clientOf, envelope, startFakeService } from '../../support/fakeService.js'

test('idle connections that were forgotten on the way cost attempts and no request', async () => {
  const known = new Set<Socket>()
  const held: ServerResponse[] = []
  let isForgotten = false
  const forgotten = new Set<Socket>()
  let events: RequestEvent[] = []
  const service = await startFakeService(({ socket }, response) => {
    if (isForgotten && known.has(socket)) {
      forgotten.add(socket)
      return void socket.resetAndDestroy()
    }
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
    // The client itself closes what is idle for seconds, as on a busy machine.
    while (forgotten.size === 0) {
      isForgotten = false
      await Promise.all(Array.from({ length: 8 }, fills))
      events = []
      isForgotten = true
      expect(await Promise.all(Array.from({ length: 8 }, fills))).toHaveLength(8)
    }
    expect(events.filter(({ outcome }) => outcome === 'ok')).toHaveLength(8)
    // One request finds out for all: what is idle then is not tried again.
    expect(events.filter(({ outcome }) => outcome === 'network')).toHaveLength(forgotten.size)
    expect(forgotten.size).toBeLessThanOrEqual(8)
    expect(client.stats().inFlight).toBe(0)
  } finally {
    client.close()
    await service.close()
  }
})

test('a response that was lost on its way is told, although a repetition has made it good', async () => {
  const told: string[] = []
  let count = 0
  const service = await startFakeService((_request, response) => {
    // The service believes that what it has sent has arrived.
    if (++count === 1) response.writeHead(200, { 'content-length': 100 }).write(envelope('[]'))
    else response.end(envelope('[]'))
  })
  const client = clientOf(service.url, {
    retry: { attempts: 3, minDelayMs: 1, maxDelayMs: 2, totalMs: 5_000 },
    timeoutMs: 200,
    onRepeated: ({ message }) => told.push(message),
  })
  try {
    for (let i = 0; i < 2; i++) await client.fills({ category: 'SPOT', symbol: 'BTCUSDT' })
    expect(told).toEqual([expect.stringMatching(/^fills SPOT BTCUSDT: timeout: no whole response within 200 ms/)])
  } finally {
    client.close()
    await service.close()
  }
})
