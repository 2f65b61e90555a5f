import { expect, test } from 'vitest'
import { dayMs, hourMs } from '../../../../src/market/values.js'
import type { Simulator } from '../../../../src/simulator/server.js'
import { fundingHours } from '../../../../src/simulator/world/funding.js'
import type { Quirks } from '../../../../src/simulator/world/quirks.js'
import { ask as askSimulator, start as startSimulator, stopAfterEach } from '../requests.js'

const now = Date.UTC(2026, 10, 20, 3, 30)
let simulator: Simulator

async function start(quirks: Partial<Quirks> = {}): Promise<void> {
  simulator = await startSimulator({ now: () => now, quirks })
}

stopAfterEach()

const ask = (request: string) => askSimulator(simulator, request)

const btc = 'category=USDT-FUTURES&symbol=BTCUSDT'

interface Rates {
  readonly resultList: readonly { readonly fundingRate: string; readonly fundingRateTimestamp: string }[]
}

test('settled rates go back 90 days in numbered pages, one for each interval of the instrument', async () => {
  await start()
  const times: number[] = []
  for (let page = 1; ; page++) {
    const { data } = await ask(`history-fund-rate?${btc}&cursor=${page}&limit=100`)
    const { resultList } = data as Rates
    times.push(...resultList.map(({ fundingRateTimestamp }) => Number(fundingRateTimestamp)))
    if (resultList.length < 100) break
  }
  const listing = simulator.world.find('USDT-FUTURES', 'BTCUSDT')
  if (listing === undefined) throw new Error('there is no such instrument')
  const everyMs = fundingHours(listing) * hourMs
  expect(times[0]).toBe(Math.floor(now / everyMs) * everyMs)
  expect(times.every((time, place) => place === 0 || (times[place - 1] as number) - time === everyMs)).toBe(true)
  expect(times.length).toBe(Math.floor((90 * dayMs) / everyMs))
  expect(simulator.world.instrument('USDT-FUTURES', 'BTCUSDT', now)?.['fundInterval']).toBe(String(everyMs / hourMs))
  expect((await ask(`history-fund-rate?${btc}&limit=101`)).code).toBe('40020')
  expect((await ask('history-fund-rate?category=SPOT&symbol=BTCUSDT')).code).toBe('400172')
})

test('the forming rates of a category come at once, and each next update is a settlement', async () => {
  await start()
  type Row = { readonly symbol: string; readonly nextUpdate: string; readonly fundingRateInterval: string }
  const rows = (await ask('current-fund-rate?category=USDT-FUTURES')).data as Row[]
  expect(rows.length).toBeGreaterThan(1)
  for (const { nextUpdate, fundingRateInterval } of rows) {
    expect(Number(nextUpdate) % (Number(fundingRateInterval) * hourMs)).toBe(0)
    expect(Number(nextUpdate)).toBeGreaterThan(now)
  }
})

test('liquidations go back three days by cursor, and equal ones stand there twice', async () => {
  await start()
  type Row = { readonly ts: string; readonly price: string }
  const rows: Row[] = []
  let cursor = ''
  do {
    const { data } = await ask(`liquidations?${btc}&limit=100&cursor=${cursor}`)
    const page = data as { list: Row[]; cursor: string }
    rows.push(...page.list)
    cursor = page.cursor
  } while (cursor !== '')
  const times = rows.map(({ ts }) => Number(ts))
  expect(times).toEqual(times.toSorted((a, b) => b - a))
  expect(times.at(-1)).toBeGreaterThanOrEqual(now - 3 * dayMs)
  expect(times.at(-1)).toBeLessThan(now - 2 * dayMs)
  expect(new Set(rows.map((row) => JSON.stringify(row))).size).toBeLessThan(rows.length)
})

test('each of them may be lacking', async () => {
  await start({ lackingOperations: ['liquidations'] })
  expect((await ask(`liquidations?${btc}`)).code).toBe('40404')
  expect((await ask(`history-fund-rate?${btc}`)).code).toBe('00000')
})
