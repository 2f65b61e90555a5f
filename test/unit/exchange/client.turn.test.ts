import { expect, test } from 'vitest'
import { clientOf, envelope, limitsOf, startFakeService } from '../../support/fakeService.js'
import { TestRight } from '../../support/rights.js'

const query = { category: 'SPOT', symbol: 'BTCUSDT' } as const

test('a request with a turn departs at once, and takes its place and no other', async () => {
  const service = await startFakeService((_request, response) => void response.end(envelope('[]')))
  try {
    const client = clientOf(service.url, { limits: limitsOf(5), maxConnections: 1 })
    const turn = await client.turn('fills')
    expect(client.stats().inFlight).toBe(1)
    // It would wait for ever behind its own turn, with one connection.
    await client.fills(query, { turn })
    expect(client.stats().inFlight).toBe(0)
    expect(client.stats().operations.fills.used).toBe(1)
    expect(service.requests).toHaveLength(1)
    client.close()
  } finally {
    await service.close()
  }
})

test('a turn that is given up, once or twice, lets the next go', async () => {
  const service = await startFakeService((_request, response) => void response.end(envelope('[]')))
  try {
    const client = clientOf(service.url, { maxConnections: 1 })
    const turn = await client.turn('fills')
    turn.release()
    turn.release()
    expect(client.stats().inFlight).toBe(0)
    await client.fills(query)
    // A turn is good for one request: the next waits for its own.
    await client.fills(query, { turn })
    expect(service.requests).toHaveLength(2)
    expect(client.stats().inFlight).toBe(0)
    client.close()
  } finally {
    await service.close()
  }
})

test('who waits for a turn can be sent home', async () => {
  const right = new TestRight()
  const client = clientOf('http://127.0.0.1:9', { right })
  const ended = new AbortController()
  right.take()
  const turn = client.turn('fills', { signal: ended.signal })
  ended.abort()
  await expect(turn).rejects.toMatchObject({ kind: 'aborted' })
  client.close()
  await expect(client.turn('fills')).rejects.toMatchObject({ kind: 'aborted' })
})
