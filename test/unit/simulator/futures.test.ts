import { expect, test } from 'vitest'
import type { Simulator } from '../../../src/simulator/server.js'
import type { Quirks } from '../../../src/simulator/world/quirks.js'
import { ask as askSimulator, start as startSimulator, stopAfterEach } from './requests.js'

const now = Date.UTC(2026, 10, 20, 3, 30)
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

test('they may be lacking', async () => {
  await start({ lackingOperations: ['index-components'] })
  expect((await ask('index-components?category=USDT-FUTURES&symbol=BTCUSDT')).code).toBe('40404')
})
