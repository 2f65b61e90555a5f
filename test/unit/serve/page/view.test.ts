import fc from 'fast-check'
import { expect, test } from 'vitest'
import { candleTypes, intervals } from '../../../../src/market/candle.js'
import { categories } from '../../../../src/market/category.js'
import { streamNames } from '../../../../src/market/stream.js'
import { readView, type View, writeView } from '../../../../src/serve/page/view.js'

const name = fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme' })

test('whatever the page shows can be read back from its address', () => {
  const key = fc.option(fc.record({ category: fc.constantFrom(...categories), symbol: name }))
  fc.assert(
    fc.property(
      key,
      fc.constantFrom(...candleTypes),
      fc.constantFrom(...intervals),
      fc.string(),
      fc.option(name),
      fc.option(fc.constant('2026-11-20')),
      fc.constantFrom('status' as const, 'market' as const, 'instrument' as const, 'coverage' as const, 'api' as const),
      fc.option(fc.integer({ min: 0, max: 4_000_000_000 })),
      fc.option(fc.constantFrom(...streamNames)),
      (instrument, type, interval, coverage, series, day, shows, seconds, stream) => {
        const { category = null, symbol = null } = instrument ?? {}
        // The address holds only the minute of a time.
        const at = seconds === null ? null : Math.floor(seconds / 60) * 60_000
        // Only the view of an instrument needs one, and only those of the market and the coverage have their own parts.
        const ofMarket = { market: coverage, within: series, kind: day, sort: series }
        const none = {
          market: '',
          within: null,
          kind: null,
          sort: null,
          coverage: '',
          stream: null,
          series: null,
          day: null,
        }
        const ofCoverage = shows === 'coverage' ? { coverage, stream, series, day } : {}
        const own = { ...none, ...ofCoverage, ...(shows === 'market' && ofMarket) }
        const tab = shows === 'instrument' && symbol === null ? 'status' : shows
        const view: View = { category, symbol, shows: tab, type, interval, at, ...own }
        expect(readView(writeView(view).slice(1))).toEqual(view)
      },
    ),
  )
})

test('what makes no sense in an address is left out', () => {
  expect(readView('?category=MOON&symbol=BTCUSDT&interval=1h&type=x&day=yesterday&at=2026-13-01T00:00')).toEqual(
    readView(''),
  )
})

test('a moment in an address is written as the commands take it', () => {
  const at = (text: string) => readView(`?at=${encodeURIComponent(text)}`).at
  const minute = Date.parse('2026-11-28T13:05:00Z')
  for (const text of ['2026-11-28 13:05', '2026-11-28T13:05:59.9Z', '2026-11-28 14:05:00+01']) {
    expect(at(text), text).toBe(minute)
  }
  expect(at('2026-11-28')).toBe(Date.parse('2026-11-28T00:00:00Z'))
  for (const text of ['2026-02-31', '28.11.2026', '2026-11-28T25:00', '1969-01-01']) expect(at(text), text).toBeNull()
})

test('a symbol without its category is no instrument', () => {
  expect(readView('?symbol=BTCUSDT').symbol).toBeNull()
})
