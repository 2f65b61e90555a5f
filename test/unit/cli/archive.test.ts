import { expect, test } from 'vitest'
import { rangesOf } from '../../../src/cli/archive.js'

test('days that follow one another are named as a range, those of each table by themselves', () => {
  const fills = ['2026-02-27', '2026-02-28', '2026-03-01', '2026-03-03'].map((day) => ({ table: 'fills', day }))
  expect(rangesOf([...fills, { table: 'candles', day: '2026-03-04' }])).toEqual([
    'fills of 2026-02-27 to 2026-03-01, 3 days,',
    'fills of 2026-03-03',
    'candles of 2026-03-04',
  ])
  expect(rangesOf([])).toEqual([])
})
