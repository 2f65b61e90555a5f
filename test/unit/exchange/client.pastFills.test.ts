import { describe, expect, it } from 'vitest'
import { envelope } from '../../support/fakeService.js'
import { failure, oneResponse } from '../../support/oneResponse.js'

const exchange = oneResponse()

const spot = { category: 'SPOT', symbol: 'BTCUSDT' } as const
const row = {
  tradeId: '1490555590356516864',
  price: '85075',
  size: '0.0017',
  side: 'Buy',
  symbol: 'BTCUSDT',
  ts: '1791102066601',
}

describe('the history of fills', () => {
  it('has a path for futures and one for spot, and names of its own for coin futures', async () => {
    await exchange.answering(envelope('[]'))
    const { client } = exchange
    await client.pastFills({ category: 'USDT-FUTURES', symbol: 'BTCUSDT', startTime: 5, endTime: 6, limit: 1000 })
    await client.pastFills({ category: 'COIN-FUTURES', symbol: 'BTCUSD_CM' })
    await client.pastFills({ category: 'USDC-FUTURES', symbol: 'BTCPERP' })
    await client.pastFills(spot)
    const futures = '/api/v2/mix/market/fills-history?productType='
    expect(exchange.service.requests).toEqual([
      `${futures}USDT-FUTURES&symbol=BTCUSDT&startTime=5&endTime=6&limit=1000`,
      `${futures}COIN-FUTURES&symbol=BTCUSD`,
      `${futures}USDC-FUTURES&symbol=BTCPERP`,
      '/api/v2/spot/market/fills-history?symbol=BTCUSDT',
    ])
  })

  it('brings fills whose ids are text and whose sides are written in either case', async () => {
    const rows = [row, { ...row, tradeId: '1490555590356516863', side: 'sell' }]
    await exchange.answering(envelope(JSON.stringify(rows), 1_791_102_070_000))
    const page = await exchange.client.pastFills(spot)
    expect(page).toMatchObject({ operation: 'spot-fills-history', rejected: [] })
    expect(page.rows.map(({ execId, side }) => [execId, side])).toEqual([
      ['1490555590356516864', 'buy'],
      ['1490555590356516863', 'sell'],
    ])
    const { receivedAt } = page
    expect(page.rows[0]).toEqual({
      ...spot,
      execId: '1490555590356516864',
      execLinkId: null,
      price: '85075',
      size: '0.0017',
      side: 'buy',
      ts: 1_791_102_066_601,
      isRpi: null,
      receivedAt,
      extra: {},
    })
  })

  it('keeps every digit of an id that comes as a number', async () => {
    await exchange.answering(envelope(`[${JSON.stringify(row).replace(`"${row.tradeId}"`, row.tradeId)}]`))
    expect((await exchange.client.pastFills(spot)).rows[0]?.execId).toBe(row.tradeId)
  })

  it('may give times in whole seconds', async () => {
    await exchange.answering(envelope(JSON.stringify([{ ...row, ts: '1791102066' }])))
    expect((await exchange.client.pastFills(spot)).rows[0]?.ts).toBe(1_791_102_066_000)
  })

  it('of another symbol than was asked for is refused, by either name of a coin future it is not', async () => {
    const symbols = ['BTCUSD', 'BTCUSD_CM', 'ETHUSD', undefined]
    await exchange.answering(envelope(JSON.stringify(symbols.map((symbol) => ({ ...row, symbol })))))
    const page = await exchange.client.pastFills({ category: 'COIN-FUTURES', symbol: 'BTCUSD_CM' })
    expect(page.rows.map(({ symbol }) => symbol)).toEqual(['BTCUSD_CM', 'BTCUSD_CM', 'BTCUSD_CM'])
    expect(page.rejected.map(({ reason }) => reason)).toEqual(['symbol: ETHUSD, but BTCUSD was asked for'])
  })

  it.each([
    ['a code', '{"code":"40404","msg":"Request URL NOT FOUND","data":null}', 400, 'absent'],
    ['a page with status 404', '<html>Not Found</html>', 404, 'perhaps-absent'],
    ['a page with status 200', '<html>Welcome</html>', 200, 'perhaps-absent'],
    ['nothing with status 404', '', 404, 'perhaps-absent'],
  ])('that is missing is told by %s, and nothing else changes', async (_name, body, status, kind) => {
    await exchange.answering(body, status)
    expect(await failure(exchange.client.pastFills(spot))).toMatchObject({ kind, retryable: false })
    if (status === 200) expect((await failure(exchange.client.fills(spot))).kind).toBe('malformed')
  })

  it.each([
    ['a page that wants a browser', '<html>Checking your browser</html>', 403, 'proxy-page'],
    ['a page of an outage', '<html>Bad gateway</html>', 502, 'unavailable'],
  ])('is not absent behind %s', async (_name, body, status, kind) => {
    await exchange.answering(body, status)
    expect((await failure(exchange.client.pastFills(spot))).kind).toBe(kind)
  })
})
