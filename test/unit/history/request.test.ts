import { describe, expect, it } from 'vitest'
import { type BackfillRequest, resolveRequest } from '../../../src/history/request.js'
import type { InstrumentSummary } from '../../../src/ledger/read/instruments.js'

const minuteMs = 60_000
const dayMs = 86_400_000
const now = Date.UTC(2026, 0, 10, 12, 0, 3)
const settleMs = 5_000

function instrument(symbol: string, more: Partial<InstrumentSummary> = {}): InstrumentSummary {
  return {
    category: 'SPOT',
    symbol,
    status: 'online',
    launchTime: now - 30 * dayMs,
    offTime: null,
    limitOpenTime: null,
    isReality: null,
    symbolType: 'crypto',
    ...more,
  }
}

const request: BackfillRequest = {
  stream: 'candles',
  categories: ['SPOT'],
  symbols: ['BTC*'],
  types: ['market'],
  intervals: ['1m'],
  from: now - 2 * dayMs,
  to: Number.MAX_SAFE_INTEGER,
}

function resolve(instruments: readonly InstrumentSummary[], more: Partial<BackfillRequest> = {}) {
  return resolveRequest({ ...request, ...more }, instruments, now, settleMs)
}

describe('a backfill request', () => {
  it('means the instruments whose category and symbol match', () => {
    const instruments = [
      instrument('BTCUSDT'),
      instrument('ETHUSDT'),
      instrument('BTCUSDT', { category: 'USDT-FUTURES' }),
      instrument('BTCUSDT', { category: 'MARGIN' }),
    ]
    expect(resolve(instruments).series.map(({ series }) => series)).toEqual([
      { stream: 'candles', category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' },
    ])
    const both = resolve(instruments, {
      categories: ['SPOT', 'USDT-FUTURES'],
      types: ['market', 'mark'],
      intervals: ['1m', '1D'],
    })
    expect(both.series).toHaveLength(8)
  })

  it('ends with the last candle that is closed and settled by the service', () => {
    const [series] = resolve([instrument('BTCUSDT')]).series
    // The candle of 11:59 closed 3 s ago.
    expect(series?.range.to).toBe(Date.UTC(2026, 0, 10, 11, 59))
  })

  it('begins at --from, or with the candle that holds the launch, and ends with trading', () => {
    const launchTime = now - 1.5 * dayMs
    const offTime = Date.UTC(2026, 0, 10)
    const listed = [instrument('BTCUSDT', { launchTime, offTime })]
    const [series] = resolve(listed, { from: 'launch' }).series
    expect(series?.range).toEqual({ from: Math.floor(launchTime / minuteMs) * minuteMs, to: offTime })
    expect(series?.isUrgent).toBe(true)
    // The list may name a later listing.
    const [named] = resolve(listed).series
    expect(named?.range).toEqual({ from: Math.ceil((now - 2 * dayMs) / minuteMs) * minuteMs, to: offTime })
    expect(named?.launch).toBe(launchTime + 1 - minuteMs)
    const [day] = resolve([instrument('BTCUSDT', { launchTime })], { from: 'launch', intervals: ['1D'] }).series
    // Days may open at any hour: one that holds the launch opens less than a day before it.
    expect(day?.range.from).toBe(launchTime - dayMs + 1)
  })

  it('is empty rather than reversed when nothing can have been traded in it', () => {
    const [series] = resolve([instrument('BTCUSDT', { launchTime: now + dayMs })]).series
    expect(series?.range.from).toBe(series?.range.to)
  })

  it('knows when nobody says where a series begins', () => {
    const unknown = instrument('BTCUSDT', { launchTime: null })
    expect(resolve([unknown], { from: 'launch' }).series[0]?.hasOpenBeginning).toBe(true)
    expect(resolve([unknown]).series[0]?.hasOpenBeginning).toBe(false)
  })

  it.each(['fills', 'candles'] as const)('means %s of a first listing, too', (stream) => {
    const [launchTime, firstLaunchTime] = [now - dayMs, now - 3 * dayMs]
    const anew = instrument('BTCUSDT', { category: 'USDT-FUTURES', launchTime, firstLaunchTime })
    const { series } = resolve([anew], { stream, categories: ['USDT-FUTURES'], from: now - 2 * dayMs })
    // A candle that opens before the beginning is not wanted.
    expect(series[0]?.range.from).toBe(
      stream === 'fills' ? now - 2 * dayMs : Math.ceil((now - 2 * dayMs) / minuteMs) * minuteMs,
    )
  })

  it('leaves out what stock tokens do not have, and says so', () => {
    const token = instrument('BTCXUSDT', { isReality: true })
    const { series, skipped } = resolve([token], { types: ['market', 'mark'], intervals: ['1m', '3m'] })
    expect(series.map(({ series: { type, interval } }) => `${type} ${interval}`)).toEqual(['market 1m'])
    expect(skipped).toEqual([
      'SPOT BTCXUSDT 1m mark candles: stock tokens have candles of type market only',
      'SPOT BTCXUSDT 3m candles: stock tokens have no candles of 3m',
      'SPOT BTCXUSDT 3m mark candles: stock tokens have candles of type market only',
    ])
  })

  it('means fills from their reach on, and until some seconds ago', () => {
    const { series } = resolve([instrument('BTCUSDT', { launchTime: null })], { stream: 'fills', from: 'launch' })
    expect(series).toMatchObject([
      { series: { stream: 'fills', symbol: 'BTCUSDT' }, range: { from: now - 90 * dayMs, to: now - 20_000 } },
    ])
    const future = instrument('BTCUSDT', { category: 'USDT-FUTURES', launchTime: null })
    const funding = resolve([future, instrument('BTCUSDT')], {
      stream: 'funding_rates',
      categories: ['USDT-FUTURES', 'SPOT'],
      from: 'launch',
    })
    // An interval of eight hours less, as the oldest rate in reach may be so young; and an hour, in which it is requested.
    expect(funding.series.map(({ series: { stream }, range }) => [stream, range.from])).toEqual([
      ['funding_rates', now - 90 * dayMs + 9 * 3_600_000],
    ])
    expect(funding.skipped).toEqual(['SPOT: only futures have funding rates'])
    const launched = resolve([instrument('BTCUSDT')], { stream: 'fills', from: 0, to: now - dayMs }).series
    expect(launched[0]?.range).toEqual({ from: now - 30 * dayMs, to: now - dayMs })
  })
})
