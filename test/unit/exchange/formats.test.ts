import { describe, expect, it } from 'vitest'
import { candleFormat, fillFormat } from '../../../src/exchange/formats/trades.js'
import { instrumentFormat } from '../../../src/exchange/formats/instruments.js'
import { tickerFormat } from '../../../src/exchange/formats/quotes.js'

const key = { category: 'SPOT', symbol: 'BTCUSDT' } as const
const noNotes = () => ({ problems: [], remarks: new Map<string, string>() })
const at = { requestTime: 2_000, ownTime: 2_000, receivedAt: 3_000 }

describe('a candle', () => {
  const wire = ['60000', '1', '2', '0.5', '1.50', '0', '0']
  const read = (settleMs: number, requestTime: number) => {
    const query = { ...key, interval: '1m' } as const
    return candleFormat.read(
      wire,
      { query: { ...query, settleMs }, requestTime, ownTime: requestTime, receivedAt: Number.MAX_SAFE_INTEGER },
      noNotes(),
    )
  }

  it('is final only after its close and the settle delay, by the clock of the service', () => {
    const isClosedAt = (requestTime: number) => read(5_000, requestTime).isClosed
    expect(isClosedAt(119_999)).toBe(false)
    expect(isClosedAt(120_000)).toBe(false)
    expect(isClosedAt(124_999)).toBe(false)
    expect(isClosedAt(125_000)).toBe(true)
  })

  it('has the series that was asked for, and decimals as they were sent', () => {
    expect(read(0, 0)).toEqual({
      ...key,
      type: 'market',
      interval: '1m',
      openTime: 60_000,
      open: '1',
      high: '2',
      low: '0.5',
      close: '1.50',
      baseVolume: '0',
      quoteTurnover: '0',
      isClosed: false,
    })
  })
})

describe('a ticker', () => {
  const read = (wire: object) => tickerFormat.read({ symbol: 'BTCUSDT', ...wire }, { query: key, ...at }, noNotes())

  it('without a generation time takes the time of the response', () => {
    expect(read({ ts: '0' })).toMatchObject({ ts: 2_000, receivedAt: 3_000 })
    expect(read({ ts: '1500' })).toMatchObject({ ts: 1_500, receivedAt: 3_000 })
  })

  it('has the category that was asked for', () => {
    expect(read({ lastPrice: '240.00' })).toMatchObject({ category: 'SPOT', lastPrice: '240.00' })
  })

  it('of another category than asked for is refused', () => {
    const notes = noNotes()
    tickerFormat.read({ category: 'COIN-FUTURES', symbol: 'ETHUSDT' }, { query: key, ...at }, notes)
    expect(notes.problems).toEqual(['category: COIN-FUTURES, but SPOT was asked for'])
  })
})

describe('every format with named fields', () => {
  it.each([
    ['fills', fillFormat],
    ['tickers', tickerFormat],
  ] as const)('reads what it names, and nothing else: %s', (_name, format) => {
    const asked = new Set<string | symbol>()
    const wire = new Proxy({}, { get: (_target, name) => void asked.add(name) })
    format.read(wire, { query: key, ...at }, noNotes())
    expect(asked).toEqual(format.fields)
  })
})

describe('an instrument', () => {
  it('is kept without what cannot be understood of its specification', () => {
    const notes = noNotes()
    const wire = { ...key, status: 'online', fundInterval: '8.5', pricePrecision: '2' }
    const instrument = instrumentFormat.read(wire, { query: { category: 'SPOT' }, ...at }, notes)
    expect(instrument).toMatchObject({ ...key, status: 'online', fundInterval: null, pricePrecision: 2 })
    expect(notes.problems).toEqual([])
    expect([...notes.remarks.values()]).toEqual(['fundInterval: expected an integer, got "8.5"'])
  })
})
