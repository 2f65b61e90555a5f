import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fetchPages, joinPages } from '../../../src/history/pagesWalk.js'
import { subtract, type TimeRange, union } from '../../../src/market/timeRange.js'
import { dayMs, hourMs, minuteMs } from '../../../src/market/values.js'

const now = Date.UTC(2026, 10, 20)
const series = { category: 'USDT-FUTURES', symbol: 'BTCUSDT', stream: 'liquidations', type: '', interval: '' } as const

test('the silence beyond all rows is claimed with the rows next to it, and not with all rows once more', async () => {
  const rows = Array.from({ length: 5_001 }, (_, place) => ({ ts: now - hourMs - place * minuteMs }))
  const given: number[] = []
  let claimed: readonly TimeRange[] = []
  const range = { from: now - 30 * dayMs, to: now - 10 * minuteMs }
  await fetchPages<(typeof rows)[number]>(
    {
      reachMs: new Map([[series.category, 60 * dayMs]]),
      pageRows: 100,
      next: (_, query, cursor) => (cursor === undefined ? null : { ...query, limit: 100, cursor }),
      ask(_, { limit, cursor = '0' }) {
        const end = Number(cursor) + limit
        const page = { rows: rows.slice(Number(cursor), end), rejected: [], unkept: 0, requestTime: now }
        return Promise.resolve((end < rows.length ? { ...page, cursor: String(end) } : page) as never)
      },
      textOf: ({ ts }) => String(ts),
      store({ rows: some, proven, silent }) {
        given.push(some.length)
        claimed = union(claimed, union(proven, silent))
        return Promise.resolve({ inserted: some.length, proven: union(proven, silent) })
      },
      explain: () => Promise.resolve(),
    },
    series,
    [range],
    {
      client: {} as never,
      request: {},
      counts: { received: 0, inserted: 0 },
      ask: (request) => request(),
      now: () => now,
    },
  )
  expect(subtract([range], claimed)).toEqual([])
  // Two rows join a page to the one before.
  expect(Math.max(...given)).toBeLessThanOrEqual(102)
})

test('numbered pages join to what there is, whatever came between them, equal rows included', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 60 }),
      fc.array(fc.nat(3), { maxLength: 30 }),
      fc.integer({ min: 1, max: 7 }),
      (letters, arrivals, pageRows) => {
        // Each row is told from its neighbours, but for twins within a page.
        const tape = letters.map((letter, place) => `${Math.floor(place / 2)}${letter}`)
        let joined: readonly string[] = []
        let moved = 0
        for (let page = 0; page * pageRows - moved < tape.length; page++) {
          const from = Math.max(0, page * pageRows - moved)
          const isTwinCut = from > 0 && tape[from] === tape[from - 1]
          fc.pre(!isTwinCut)
          joined = joinPages(joined, tape.slice(from, page * pageRows - moved + pageRows), (row) => row)
          moved += page === 0 ? 0 : Math.min(arrivals[page] ?? 0, pageRows - 1)
        }
        expect(joined).toEqual(tape)
      },
    ),
  )
})

test('a page repeats the most rows that end the pages above it and begin it', () => {
  const rows = fc.array(fc.constantFrom('a', 'b'), { maxLength: 12 })
  fc.assert(
    fc.property(rows, rows, (above, page) => {
      let repeated = Math.min(above.length, page.length)
      while (page.slice(0, repeated).join('') !== above.slice(above.length - repeated).join('')) repeated--
      expect(joinPages(above, page, (row) => row)).toEqual([...above, ...page.slice(repeated)])
    }),
  )
})

test('a page of any length is joined at once', { timeout: 120_000 }, () => {
  // Comparing each beginning of the page with what ends above it takes a million times as long as one look at each row.
  const of = (row: string) => Array.from({ length: 500_000 }, () => row)
  const above = [...of('a'), ...of('a')]
  const page = [...of('a'), ...of('b')]
  expect(joinPages(above, page, (row) => row)).toHaveLength(1_500_000)
})
