import { expect, it } from 'vitest'
import { clientOf, envelope, startFakeService } from '../../support/fakeService.js'

const decimals = ['lastPrice', 'bid1Price', 'bid1Size', 'ask1Price', 'ask1Size', 'volume24h', 'turnover24h'] as const

/** As the service sends them, each another one; some as no one should. */
function wireTicker(index: number): string {
  const fields = {
    category: 'SPOT',
    symbol: `COIN${index}USDT`,
    ts: String(1_760_000_000_000 + index),
    ...Object.fromEntries(decimals.map((name, place) => [name, `${index}.${place}0`])),
    platformTurnover24h: index % 2 === 0 ? '' : `${index}.5`,
    openPrice24h: '1',
    fundingRate: '',
    brandNew: index % 7 === 0 ? { nested: [index] } : 'plain',
  }
  // As a number, as null, left out.
  if (index % 11 === 1) return JSON.stringify({ ...fields, lastPrice: index, ts: Number(fields.ts) })
  if (index % 11 === 2) return JSON.stringify({ ...fields, volume24h: null, bid1Size: undefined })
  return JSON.stringify(fields)
}

it.each([
  ['a short list', 20],
  ['a list that is taken apart', 400],
])('tickers that are looked at say what whole ones say: %s', async (_, count) => {
  const rows = [
    ...Array.from({ length: count }, (__, index) => wireTicker(index + 1)),
    // Neither is read by whoever asks for all of it or only for some.
    '{"category":"SPOT","symbol":"BADUSDT","lastPrice":"much"}',
    '{"category":"USDT-FUTURES","symbol":"ELSEWHEREUSDT","lastPrice":"1"}',
  ]
  const service = await startFakeService((_request, response) => void response.end(envelope(`[${rows.join(',')}]`)))
  const client = clientOf(service.url)
  try {
    const whole = await client.tickers({ category: 'SPOT' })
    const signs = await client.tickerSigns({ category: 'SPOT' })
    expect(whole.rows).toHaveLength(count)
    const expected = whole.rows.map(({ category, symbol, ts, platformTurnover24h, ...row }) => ({
      category,
      symbol,
      ts,
      platformTurnover24h,
      ...Object.fromEntries(decimals.map((name) => [name, row[name]])),
      receivedAt: expect.any(Number) as number,
    }))
    expect(signs.rows).toEqual(expected)
    expect(signs.rejected).toHaveLength(2)
    // What nobody looks at is not held against it.
    rows.push('{"category":"SPOT","symbol":"ODDUSDT","lastPrice":"3","volume24h":"4","fundingRate":"many"}')
    expect((await client.tickers({ category: 'SPOT' })).rows).toHaveLength(count)
    expect((await client.tickerSigns({ category: 'SPOT' })).rows.at(-1)).toMatchObject({
      symbol: 'ODDUSDT',
      volume24h: '4',
    })
  } finally {
    client.close()
    await service.close()
  }
})
