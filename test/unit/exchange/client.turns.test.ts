import type { AxiosAdapter } from 'axios'
import { expect, test } from 'vitest'
import { clientOf, envelope } from '../../support/fakeService.js'
import { countTurns } from '../../support/turns.js'

test('long bodies that end together are read in turns of the event loop of their own', async () => {
  const body = Buffer.from(
    envelope(JSON.stringify([{ category: 'SPOT', symbol: 'BTCUSDT', note: 'x'.repeat(20_000) }])),
  )
  const waiting: (() => void)[] = []
  const adapter: AxiosAdapter = async (config) => {
    config.moments?.onSent()
    await new Promise<void>((resolve) => void waiting.push(resolve))
    config.moments?.onResponse()
    return { data: body, status: 200, statusText: '', headers: {}, config }
  }
  const counted = countTurns()
  const turns: number[] = []
  const client = clientOf('http://127.0.0.1:9', { adapter, onRequest: () => void turns.push(counted.turn) })
  const pages = Array.from({ length: 10 }, () => client.tickers({ category: 'SPOT' }))
  await expect.poll(() => waiting.length).toBe(10)
  for (const end of waiting) end()
  await Promise.all(pages)
  counted.stop()
  client.close()
  expect(new Set(turns).size).toBe(10)
})
