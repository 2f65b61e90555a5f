import { monitorEventLoopDelay } from 'node:perf_hooks'
import { describe, expect, it } from 'vitest'
import { clientOf, envelope } from '../../support/fakeService.js'
import { failure, oneResponse } from '../../support/oneResponse.js'

const exchange = oneResponse()

const instrument = (more: object) => ({ category: 'SPOT', symbol: 'BTCUSDT', ...more })
const unknown = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`field${i}`, `${i}`]))

describe('what one response may hold', () => {
  it('unknown fields of a row are kept up to a bound; the row is stored, and what is left out is told', async () => {
    await exchange.answering(
      envelope(JSON.stringify([instrument(unknown(10_000)), { ...instrument({}), symbol: 'ETHUSDT' }])),
    )
    const page = await exchange.client.instruments({ category: 'SPOT' })
    expect(page.rows.map(({ symbol, extra }) => [symbol, Object.keys(extra).length])).toEqual([
      ['BTCUSDT', 64],
      ['ETHUSDT', 0],
    ])
    expect(page.rejected).toMatchObject([
      { reason: expect.stringContaining('9936 fields') as string, isRowStored: true },
    ])
    expect(Buffer.byteLength(page.rejected[0]?.raw ?? '')).toBeLessThanOrEqual(4_096)
    expect(page).toMatchObject({ unkept: 0 })
  })

  it('one unknown field of many bytes is left out, and those beside it are kept', async () => {
    await exchange.answering(envelope(JSON.stringify([instrument({ note: 'x'.repeat(100_000), other: '1' })])))
    const page = await exchange.client.instruments({ category: 'SPOT' })
    expect(page.rows[0]?.extra).toEqual({ other: '1' })
    expect(page.rejected[0]).toMatchObject({ isRowStored: true })
  })

  it.each([
    ['of 200,000 unknown fields', Object.entries(unknown(200_000))],
    ['of 100,000 levels', [['x', '[]']]],
    ['among few, of 100,000 levels', [['x', '[]']]],
    ['that is no JSON', [['x', 'nothing']]],
  ])('a row %s costs none of the others, and the start of its text is kept', async (what, fields) => {
    const count = what.startsWith('among few') ? 3 : 5_000
    const sound = Array.from({ length: count }, (_, i) => instrument({ symbol: `S${i}`, size: 'x'.repeat(100) }))
    const nested = what.endsWith('levels') ? `${'['.repeat(100_000)}${']'.repeat(100_000)}` : undefined
    const spelled = fields.map(([name, value]) => `"${name}":${nested ?? (value === 'nothing' ? value : `"${value}"`)}`)
    const bad = `{"category":"SPOT","symbol":"EVIL",${spelled.join()}}`
    const [first, ...others] = sound.map((row) => JSON.stringify(row))
    await exchange.answering(envelope(`[${[first, bad, ...others].join()}]`))
    const page = await exchange.client.instruments({ category: 'SPOT' })
    expect(page.rows).toHaveLength(count)
    expect(page.rejected).toMatchObject([{ rawBytes: bad.length, raw: bad.slice(0, 4_096) }])
    expect(page.unkept).toBe(0)
  })

  it.each([
    ['NaN', '{"symbol":"BAD","lastPrice":NaN}'],
    ['a raw line feed', '{"symbol":"BA\nD"}'],
    ['a leading zero', '{"symbol":"BAD","lastPrice":01.5}'],
    ['a comma too many', '{"symbol":"BAD",}'],
    ['a byte that is no UTF-8', Buffer.from('{"symbol":"B\xe9D"}', 'latin1')],
  ])('a row with %s costs none of the others, in short and in long responses', async (_what, bad) => {
    for (const count of [2, 6_000]) {
      const sound = Array.from(
        { length: count },
        (_, i) => `,${JSON.stringify(instrument({ symbol: `S${i}`, size: 'x'.repeat(60) }))}`,
      )
      const [start = '', end = ''] = envelope('[BAD]').split('BAD')
      await exchange.answering(Buffer.concat([start, bad, ...sound, end].map((piece) => Buffer.from(piece))))
      const page = await exchange.client.tickers({ category: 'SPOT' })
      expect(page.rows.map(({ symbol }) => symbol)).toEqual(sound.map((_, i) => `S${i}`))
      expect(page.rejected).toMatchObject([{ reason: expect.stringMatching(/^a row that is not JSON: /) as string }])
    }
  })

  it('what is wrong outside of rows fails the response, and says so', async () => {
    for (const body of [
      envelope('[{}]').replace('"success"', 'NaN'),
      Buffer.from(envelope('[{}]').replace('success', '\xe9'), 'latin1'),
      envelope('[{"a":NaN}').slice(0, -1),
      envelope('[{"symbol":"A"B"},{"symbol":"C"}]'),
      '<html>[{}]</html>',
    ]) {
      await exchange.answering(body)
      const message = /not JSON|HTML instead of JSON.*which proxy is in front/
      expect(await failure(exchange.client.tickers({ category: 'SPOT' }))).toMatchObject({
        kind: 'malformed',
        message: expect.stringMatching(message) as string,
      })
    }
  })

  it('the mark of a byte order before a response is none of it', async () => {
    await exchange.answering(`\ufeff${envelope(JSON.stringify([instrument({})]))}`)
    expect((await exchange.client.tickers({ category: 'SPOT' })).rows).toHaveLength(1)
  })

  it.each(['instruments', 'tickers', 'rpiSymbols', 'fundingForecasts'] as const)(
    'a row of %s that is named like all instruments of a category is rejected',
    async (method) => {
      const rows = JSON.stringify(
        ['*', 'BTCUSDT'].map((symbol) => ({ category: 'USDT-FUTURES', symbol, fundingRate: '0' })),
      )
      await exchange.answering(envelope(rows))
      const { rpiSymbols } = exchange.client
      const page = await (method === 'rpiSymbols'
        ? rpiSymbols()
        : exchange.client[method]({ category: 'USDT-FUTURES' }))
      expect(page.rows.map(({ symbol }) => symbol)).toEqual(['BTCUSDT'])
      expect(page.rejected).toMatchObject([{ reason: 'symbol: expected a short text other than "*", got "*"' }])
    },
  )

  it('a long response keeps each digit of its numbers', async () => {
    const row = (i: number) =>
      `{"category":"SPOT","symbol":"S${i}","lastPrice":${i}.10000000000000000000,"ts":"1760000000000"}`
    await exchange.answering(envelope(`[${Array.from({ length: 9_000 }, (_, i) => row(i)).join()}]`))
    const page = await exchange.client.tickers({ category: 'SPOT' })
    expect(page.rows[8_999]).toMatchObject({ symbol: 'S8999', lastPrice: '8999.10000000000000000000' })
    expect(page.rejected).toEqual([])
  })

  it('of rows that cannot be understood a hundred are kept, and the others counted', async () => {
    const bad = Array.from({ length: 5_000 }, (_, i) => ({ nonsense: i }))
    await exchange.answering(envelope(JSON.stringify([...bad, instrument({})])))
    const page = await exchange.client.instruments({ category: 'SPOT' })
    expect(page.rows).toHaveLength(1)
    expect(page.rejected).toHaveLength(100)
    expect(page.unkept).toBe(4_900)
  })

  it('rows beyond the bound of the operation are counted', async () => {
    const fill = (i: number) => ({ execId: `${i}`, price: '1', size: '1', side: 'buy', ts: '1760000000000' })
    await exchange.answering(envelope(JSON.stringify(Array.from({ length: 1_500 }, (_, i) => fill(i)))))
    const page = await exchange.client.fills({ category: 'SPOT', symbol: 'BTCUSDT' })
    expect(page.rows).toHaveLength(1_000)
    expect(page.unkept).toBe(500)
  })

  it('of candles two thousand are read, since each that changes is kept twice', async () => {
    const rows = Array.from({ length: 2_500 }, (_, i) => [
      `${1_759_980_000_000 + 60_000 * i}`,
      '1',
      '1',
      '1',
      '1',
      '0',
      '0',
    ])
    await exchange.answering(envelope(JSON.stringify(rows)))
    const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const
    const page = await exchange.client.candles({ ...series, limit: 14 })
    expect(page.rows).toHaveLength(2_000)
    expect(page.unkept).toBe(500)
  })

  it('books have 10,000 levels on a side at most', async () => {
    const side = JSON.stringify(Array.from({ length: 10_001 }, () => [1, 1]))
    await exchange.answering(envelope(`{"a":${side},"b":[],"ts":"1760000000000"}`))
    const page = await exchange.client.orderBook({ category: 'SPOT', symbol: 'BTCUSDT', limit: 50 })
    expect(page.rows).toEqual([])
    expect(page.rejected[0]?.reason).toBe('a: expected at most 10000 levels, got "10001 levels"')
  })

  it('a response is cut off at the bound of its operation', async () => {
    await exchange.answering(envelope(`["${'x'.repeat(2_000_000)}"]`))
    expect(await failure(exchange.client.fills({ category: 'SPOT', symbol: 'BTCUSDT' }))).toMatchObject({
      kind: 'too-large',
    })
  })
})

describe('what one response may name', () => {
  it('is a cursor that fits into a request', async () => {
    const request = () => exchange.client.liquidations({ category: 'USDT-FUTURES', symbol: 'BTCUSDT', limit: 100 })
    const data = (cursor: string) => envelope(JSON.stringify({ list: [], cursor }))
    await exchange.answering(data('x'.repeat(1_000)))
    expect((await request()).cursor).toHaveLength(1_000)
    await exchange.answering(data('x'.repeat(1_001)))
    expect(await failure(request())).toMatchObject({ kind: 'malformed' })
  })

  it('is a code of some characters', async () => {
    await exchange.answering(JSON.stringify({ code: '1'.repeat(10_000), msg: 'x'.repeat(10_000), data: null }))
    const error = await failure(exchange.client.tickers({ category: 'SPOT' }))
    expect(error.code).toHaveLength(100)
    expect(error.message.length).toBeLessThan(1_000)
  })
})

describe('the event loop', () => {
  it.each([
    ['200,000 rows, all of them wrong', `{"code":"00000","requestTime":1,"data":[${'{"a":0.1},'.repeat(199_999)}{}]}`],
    ['a row of 200,000 fields', envelope(JSON.stringify([instrument(unknown(200_000))]))],
    [
      'a row of 200,000 numbers',
      envelope(JSON.stringify([instrument(unknown(200_000))]).replaceAll(/:"(\d+)"/g, ':$1.5')),
    ],
    [
      'numbers in 60,000 rows',
      envelope(`[${'{"category":"SPOT","symbol":"BTCUSDT","maxOrderQty":1.10,"minOrderQty":2.5},'.repeat(59_999)}{}]`),
    ],
    [
      '200,000 fields of the envelope',
      envelope('[]').replace('{', `{${JSON.stringify(unknown(200_000)).slice(1, -1)},`),
    ],
    ['a row of a quarter of a megabyte with 20,000 fields', envelope(JSON.stringify([instrument(unknown(12_000))]))],
    ['all the memory in one string', envelope(`["${'x'.repeat(8_000_000)}"]`)],
    ['a list of lists', envelope(`[${'[[[]]],'.repeat(900_000)}[]]`)],
  ])('is free for others while a response is read: %s', async (_name, body) => {
    let shortest = Infinity
    // Once is enough: something else on this machine may hold one up, a quadratic reader takes minutes each time.
    for (let attempt = 0; attempt < 3 && shortest >= maxStall; attempt++)
      shortest = Math.min(shortest, await stallWhileReading(body))
    expect(shortest).toBeLessThan(maxStall)
  })
})

/** As long as this machine takes for some 150 MB at once. A quadratic reader takes minutes. */
const maxStall = 50

/** The longest time for which the event loop stood still, in times of what three megabytes take to parse right now. */
async function stallWhileReading(body: string): Promise<number> {
  await exchange.answering(body)
  const reader = clientOf(exchange.service.url)
  const delays = monitorEventLoopDelay({ resolution: 5 })
  delays.enable()
  await reader.instruments({ category: 'SPOT' }).catch(() => undefined)
  delays.disable()
  reader.close()
  return delays.max / 1e6 / parseTimeMs()
}

const threeMegabytes = JSON.stringify(Array.from({ length: 30_000 }, (_, i) => instrument(unknown(3 + (i % 2)))))
function parseTimeMs(): number {
  const startedMs = performance.now()
  JSON.parse(threeMegabytes)
  return performance.now() - startedMs
}
