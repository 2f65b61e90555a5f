import type { AxiosAdapter } from 'axios'
import { expect, test } from 'vitest'
import { clientOf, envelope } from '../../support/fakeService.js'

test('long bodies that end together are read in turns of the event loop of their own', async () => {
  let turn = 0
  let isOver = false
  const count = () => {
    turn++
    if (!isOver) setImmediate(count)
  }
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
  const turns: number[] = []
  const client = clientOf('http://127.0.0.1:9', { adapter, onRequest: () => void turns.push(turn) })
  const pages = Array.from({ length: 10 }, () => client.tickers({ category: 'SPOT' }))
  await expect.poll(() => waiting.length).toBe(10)
  count()
  for (const end of waiting) end()
  await Promise.all(pages)
  isOver = true
  client.close()
  expect(new Set(turns).size).toBe(10)
})
