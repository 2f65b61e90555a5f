import { expect, test } from 'vitest'
import { hourMs } from '../../../src/market/values.js'
import type { Simulator } from '../../../src/simulator/server.js'
import type { Quirks } from '../../../src/simulator/world/quirks.js'
import { ask as askSimulator, start as startSimulator, stopAfterEach } from './requests.js'

let now = Date.UTC(2026, 10, 20, 3, 30)
let simulator: Simulator

async function start(quirks: Partial<Quirks> = {}): Promise<void> {
  simulator = await startSimulator({ now: () => now, quirks })
}

stopAfterEach()

const ask = (request: string) => askSimulator(simulator, request)

test('the weights of an index add up to one, and its category need not be named', async () => {
  await start()
  const { data } = await ask('index-components?symbol=BTCUSDT')
  const { symbol, componentList } = data as { symbol: string; componentList: { weight: string }[] }
  expect(symbol).toBe('BTCUSDT')
  expect(componentList.reduce((sum, { weight }) => sum + Number(weight) * 10_000, 0)).toBeCloseTo(10_000)
  expect((await ask('index-components?category=USDT-FUTURES&symbol=BTCUSDT')).data).toEqual(data)
  expect((await ask('index-components')).code).not.toBe('00000')
})

test('each tier of positions begins where the one before it ends, with less leverage', async () => {
  await start()
  type Tier = Readonly<Record<'tier' | 'minTierValue' | 'maxTierValue' | 'leverage', string>>
  const tiers = (await ask('position-tier?category=USDT-FUTURES&symbol=BTCUSDT')).data as Tier[]
  expect(tiers.length).toBeGreaterThan(2)
  for (const [place, tier] of tiers.slice(1).entries()) {
    expect(tier.minTierValue).toBe(tiers[place]?.maxTierValue)
    expect(Number(tier.leverage)).toBeLessThan(Number(tiers[place]?.leverage))
  }
  expect((await ask('position-tier?category=SPOT&symbol=BTCUSDT')).code).toBe('400172')
})

test('limits of open interest come for a category or a symbol, and change now and then', async () => {
  await start({ termsChangeMs: hourMs })
  const limits = async () => (await ask('oi-limit?category=USDT-FUTURES')).data as { symbol: string }[]
  const before = await limits()
  expect(before.length).toBeGreaterThan(1)
  expect((await ask('oi-limit?category=USDT-FUTURES&symbol=BTCUSDT')).data).toEqual(
    before.filter(({ symbol }) => symbol === 'BTCUSDT'),
  )
  expect(await limits()).toEqual(before)
  now += 2 * hourMs
  expect(await limits()).not.toEqual(before)
})

test('each of them may be lacking', async () => {
  await start({ lackingOperations: ['oi-limit'] })
  expect((await ask('oi-limit?category=USDT-FUTURES')).code).toBe('40404')
  expect((await ask('position-tier?category=USDT-FUTURES&symbol=BTCUSDT')).code).toBe('00000')
})
