import { afterEach, expect, test } from 'vitest'
import { dayMs, hourMs } from '../../../src/market/values.js'
import { type Simulator, type SimulatorOptions, startSimulator } from '../../../src/simulator/server.js'

interface PastRow {
  readonly tradeId: string
  readonly ts: string
  readonly side: string
  readonly symbol: string
}

const now = Date.UTC(2026, 10, 20)
let simulator: Simulator

async function start(quirks: SimulatorOptions['quirks'] = {}): Promise<void> {
  simulator = await startSimulator({ scale: 'tiny', now: () => now, limits: { enforce: false }, quirks })
}

afterEach(() => simulator.close())

async function ask(query: string, line = 'mix'): Promise<{ code: string; data: PastRow[] }> {
  const response = await fetch(`${simulator.url}/api/v2/${line}/market/fills-history?${query}`)
  return (await response.json()) as { code: string; data: PastRow[] }
}

const futures = 'productType=USDT-FUTURES&symbol=BTCUSDT'

test('pages backwards by id bring every fill of a range once, each as the market had it', async () => {
  await start()
  const [from, to] = [now - 3 * hourMs, now - hourMs]
  const rows: PastRow[] = []
  for (;;) {
    const before = rows.length === 0 ? '' : `&idLessThan=${rows.at(-1)?.tradeId}`
    const { data } = await ask(`${futures}&limit=100&startTime=${from}&endTime=${to}${before}`)
    rows.push(...data)
    if (data.length < 100) break
  }
  const truth = simulator.world.fills('USDT-FUTURES', 'BTCUSDT', from, to + 1).toReversed()
  expect(truth.length).toBeGreaterThan(200)
  expect(rows.map(({ tradeId, ts }) => [tradeId, ts])).toEqual(truth.map(({ execId, ts }) => [execId, ts]))
  expect(new Set(rows.map(({ side }) => side))).toEqual(new Set(['Buy', 'Sell', 'buy', 'sell']))
})

test('without a range the newest are given, with the ids of the newest fills', async () => {
  await start()
  const { data } = await ask('symbol=BTCUSDT', 'spot')
  expect(data).toHaveLength(500)
  const newest = simulator.world.latestFills('SPOT', 'BTCUSDT', now, 100)
  expect(data.slice(0, 100).map(({ tradeId }) => tradeId)).toEqual(newest.map(({ execId }) => execId))
})

test('it reaches back 90 days, seven of them in a request of at most 1,000 rows', async () => {
  await start()
  const rangeOf = (days: number, length: number) =>
    `&startTime=${now - days * dayMs}&endTime=${now - (days - length) * dayMs}`
  expect((await ask(`${futures}${rangeOf(89, 7)}`)).data.length).toBeGreaterThan(0)
  expect((await ask(`${futures}${rangeOf(98, 7)}`)).data).toEqual([])
  expect((await ask(`${futures}${rangeOf(30, 7.1)}`)).code).toBe('400172')
  expect((await ask(`${futures}&limit=1001`)).code).toBe('40020')
})

test('coin futures have other names there, and ids may be any', async () => {
  await start({ fillsHistoryIds: 'other' })
  const coin = simulator.world.listings().find(({ symbol }) => symbol.endsWith('_CM'))?.symbol ?? ''
  const { data } = await ask(`productType=COIN-FUTURES&symbol=${coin.slice(0, -3)}&limit=5`)
  expect(data[0]?.symbol).toBe(coin.slice(0, -3))
  const live = simulator.world.latestFills('COIN-FUTURES', coin, now, 5).map(({ execId }) => execId)
  expect(data.map(({ tradeId }) => tradeId)).toEqual(live.map((id) => `9${id.slice(1)}`))
  const next = await ask(`productType=COIN-FUTURES&symbol=${coin.slice(0, -3)}&limit=5&idLessThan=${data[1]?.tradeId}`)
  expect(next.data.slice(0, 3)).toEqual(data.slice(2))
  expect((await ask(`productType=COIN-FUTURES&symbol=${coin}`)).code).toBe('40034')
})

test('pages may have holes, and times whole seconds', async () => {
  const hole = { from: now - 2 * hourMs, to: now - hourMs, in: 'history' } as const
  await start({ hiddenFills: [hole], spotHistoryInSeconds: true })
  const { data } = await ask(`symbol=BTCUSDT&startTime=${now - 3 * hourMs}&endTime=${now}&limit=1000`, 'spot')
  expect(data.length).toBeGreaterThan(0)
  for (const { ts } of data) {
    expect(ts).toMatch(/^\d{10}$/)
    expect(Number(ts) * 1000 >= hole.from && Number(ts) * 1000 < hole.to).toBe(false)
  }
})

test.each([
  ['code', 400, '40404'],
  ['notFound', 404, '<html>'],
  ['html', 200, '<html>'],
] as const)('a service without it says so: %s', async (noFillsHistory, status, text) => {
  await start({ noFillsHistory })
  const response = await fetch(`${simulator.url}/api/v2/spot/market/fills-history?symbol=BTCUSDT`)
  expect(response.status).toBe(status)
  expect(await response.text()).toContain(text)
})

test('it is counted as ten requests a second, beside those of the newest fills', async () => {
  simulator = await startSimulator({ scale: 'tiny', now: () => now })
  const countRejected = async () => {
    const url = `${simulator.url}/api/v2/mix/market/fills-history?${futures}`
    const responses = await Promise.all(Array.from({ length: 12 }, () => fetch(url)))
    return responses.filter(({ status }) => status === 429).length
  }
  // A busy machine may take more than a second to send twelve requests. They are then sent again.
  await expect.poll(countRejected, { interval: 1_500 }).toBe(2)
  const other = await fetch(`${simulator.url}/api/v3/market/fills?category=USDT-FUTURES&symbol=BTCUSDT`)
  expect(other.status).toBe(200)
})
