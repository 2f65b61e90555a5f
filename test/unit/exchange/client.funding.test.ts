import { describe, expect, it } from 'vitest'
import { envelope } from '../../support/fakeService.js'
import { failure, oneResponse } from '../../support/oneResponse.js'

const exchange = oneResponse()

const btc = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
const key = 'category=USDT-FUTURES&symbol=BTCUSDT'
const settled = { symbol: 'BTCUSDT', fundingRate: '-0.000071', fundingRateTimestamp: '1743033600000' }

describe('funding', () => {
  it('settled rates come in numbered pages', async () => {
    const other = { ...settled, symbol: 'ETHUSDT' }
    await exchange.answering(envelope(JSON.stringify({ resultList: [settled, other] })))
    const page = await exchange.client.fundingRates({ ...btc, cursor: 2, limit: 100 })
    expect(exchange.service.requests).toEqual([`/api/v3/market/history-fund-rate?${key}&cursor=2&limit=100`])
    const { receivedAt } = page
    expect(page.rows).toEqual([{ ...btc, ts: 1_743_033_600_000, fundingRate: '-0.000071', receivedAt, extra: {} }])
    expect(page.rejected.map(({ reason }) => reason)).toEqual(['symbol: ETHUSDT, but BTCUSDT was asked for'])
  })

  it.each([
    ['a new array beside the rows', { notices: ['x'], resultList: [{ ...settled, extra: '1' }], tags: [1, 2] }, 1],
    ['null for no rows', { resultList: null }, 0],
    ['null for no rows, beside a new array', { tags: [{ ...settled }], resultList: null }, 0],
    ['the rows under another name', { rates: [settled], total: 1 }, 1],
  ])('settled rates come with %s', async (_what, data, count) => {
    await exchange.answering(envelope(JSON.stringify(data)))
    const page = await exchange.client.fundingRates(btc)
    expect(page).toMatchObject({ rejected: [], unkept: 0 })
    expect(page.rows).toHaveLength(count)
  })

  it.each([
    ['two arrays, of which neither has the known name', { rates: [settled], tags: [] }],
    ['rows that are no array', { resultList: {}, tags: [settled] }],
  ])('%s are no page', async (_what, data) => {
    await exchange.answering(envelope(JSON.stringify(data)))
    expect((await failure(exchange.client.fundingRates(btc))).kind).toBe('malformed')
  })

  it('forming rates come for a whole category, some without bounds', async () => {
    const row = {
      symbol: 'BTCUSDT',
      fundingRate: '0.000071',
      fundingRateInterval: '8',
      nextUpdate: '1743062400000',
      minFundingRate: '-0.003',
      maxFundingRate: '0.003',
      cashDividend: '0',
    }
    const test = { ...row, symbol: 'TESTUSDT', minFundingRate: null, maxFundingRate: null, fundingRateInterval: '' }
    await exchange.answering(envelope(JSON.stringify([row, test]), 1_743_060_000_000))
    const page = await exchange.client.fundingForecasts({ category: 'USDT-FUTURES' })
    expect(exchange.service.requests).toEqual(['/api/v3/market/current-fund-rate?category=USDT-FUTURES'])
    expect(page.rows).toMatchObject([
      {
        ...btc,
        ts: 1_743_060_000_000,
        fundingRate: '0.000071',
        intervalHours: 8,
        nextUpdate: 1_743_062_400_000,
        minRate: '-0.003',
        maxRate: '0.003',
        extra: { cashDividend: '0' },
      },
      { symbol: 'TESTUSDT', intervalHours: null, minRate: null, maxRate: null },
    ])
  })
})

describe('liquidations', () => {
  it('equal rows stay as many as they are, and the cursor leads to older ones', async () => {
    const row = { symbol: 'BTCUSDT', side: 'buy', price: '85000.10', amount: '0.5', ts: '1743062400000' }
    await exchange.answering(envelope(JSON.stringify({ list: [row, row], cursor: '81' })))
    const page = await exchange.client.liquidations({ ...btc, limit: 2 })
    const { receivedAt } = page
    const liquidation = { ...btc, ts: 1_743_062_400_000, side: 'buy', price: '85000.10', amount: '0.5', extra: {} }
    expect(page.rows).toEqual([
      { ...liquidation, receivedAt },
      { ...liquidation, receivedAt },
    ])
    expect(page.cursor).toBe('81')
    await exchange.client.liquidations({ ...btc, cursor: page.cursor ?? '' })
    expect(exchange.service.requests.at(-1)).toBe(`/api/v3/market/liquidations?${key}&cursor=81`)
  })

  it('the last page has no cursor', async () => {
    await exchange.answering(envelope('{"list":[],"cursor":""}'))
    expect(await exchange.client.liquidations(btc)).not.toHaveProperty('cursor')
  })

  it.each(['[]', '{}', 'null'])('data that is %s is no page', async (data) => {
    await exchange.answering(envelope(data))
    expect((await failure(exchange.client.liquidations(btc))).kind).toBe('malformed')
    expect((await failure(exchange.client.fundingRates(btc))).kind).toBe('malformed')
  })
})

it('a service may lack each of them', async () => {
  await exchange.answering('{"code":"40404","msg":"Request URL NOT FOUND","data":null}', 404)
  const { client } = exchange
  expect((await failure(client.liquidations(btc))).kind).toBe('absent')
  expect((await failure(client.fundingRates(btc))).kind).toBe('absent')
  expect((await failure(client.fundingForecasts({ category: 'USDT-FUTURES' }))).kind).toBe('absent')
})
