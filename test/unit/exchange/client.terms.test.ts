import { expect, it } from 'vitest'
import { envelope } from '../../support/fakeService.js'
import { failure, oneResponse } from '../../support/oneResponse.js'

const exchange = oneResponse()

const btc = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
const key = 'category=USDT-FUTURES&symbol=BTCUSDT'

it('the components of an index stand in an object that names its symbol', async () => {
  const row = { exchange: 'Binance', spotPair: 'BTCUSDT', equivalentPrice: '85000.10', weight: '0.2500' }
  const broken = { ...row, weight: 'much' }
  const data = JSON.stringify({ symbol: 'BTCUSDT', componentList: [{ ...row, flag: 'x' }, broken] })
  await exchange.answering(envelope(data, 1_743_060_000_000))
  const page = await exchange.client.indexComponents(btc)
  expect(exchange.service.requests).toEqual([`/api/v3/market/index-components?${key}`])
  expect(page.rows).toMatchObject([
    {
      ...btc,
      exchange: 'Binance',
      spotPair: 'BTCUSDT',
      weight: '0.2500',
      equivalentPrice: '85000.10',
      extra: { flag: 'x' },
    },
  ])
  expect(page.rejected.map(({ reason }) => reason)).toEqual([
    'weight: expected a decimal number of at most 38 digits that is not negative, got "much"',
  ])
})

it.each([
  ['its code', '{"code":"40404","msg":"Request URL NOT FOUND","data":null}', 400, 'absent'],
  ['HTTP 404', 'Not Found', 404, 'perhaps-absent'],
  ['a page', '<html><body>Not Found</body></html>', 200, 'perhaps-absent'],
])('a service may lack each of them, and says so by %s', async (_how, body, status, kind) => {
  await exchange.answering(body, status, { 'content-type': body.startsWith('<') ? 'text/html' : 'application/json' })
  const { client } = exchange
  expect((await failure(client.indexComponents(btc))).kind).toBe(kind)
})
