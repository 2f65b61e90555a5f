import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fetchPages, joinPages } from '../../../src/history/pagesWalk.js'
import { subtract, type TimeRange, union } from '../../../src/market/timeRange.js'
import { bounds } from '../../../src/market/bounds.js'
import { dayMs, hourMs, minuteMs, sum } from '../../../src/market/values.js'

const now = Date.UTC(2026, 10, 20)
const series = { category: 'USDT-FUTURES', symbol: 'BTCUSDT', stream: 'liquidations', type: '', interval: '' } as const

interface Row {
  readonly ts: number
  readonly text: string
}

const range = { from: now - 30 * dayMs, to: now - 10 * minuteMs }

/** Walks through a service with these rows. Resolves to what was stored, claimed and explained. */
async function walk(rows: readonly Row[]) {
  const given: number[] = []
  const reasons: string[] = []
  let claimed: readonly TimeRange[] = []
  const walking = fetchPages<Row>(
    {
      reachMs: new Map([[series.category, 60 * dayMs]]),
      pageRows: 100,
      next: (_, query, cursor) => (cursor === undefined ? null : { ...query, limit: 100, cursor }),
      ask(_, { limit, cursor = '0' }) {
        const end = Number(cursor) + limit
        const page = { rows: rows.slice(Number(cursor), end), rejected: [], unkept: 0, requestTime: now }
        return Promise.resolve((end < rows.length ? { ...page, cursor: String(end) } : page) as never)
      },
      textOf: ({ text }) => text,
      store({ rows: some, proven, silent }) {
        given.push(some.length)
        claimed = union(claimed, union(proven, silent))
        return Promise.resolve({ inserted: some.length, proven: union(proven, silent) })
      },
      explain: (_, __, reason) => Promise.resolve(void reasons.push(reason)),
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
  await walking.catch((error: unknown) => reasons.push((error as Error).message))
  return { given, claimed, reasons }
}

const rowsOf = (length: number, apartMs: number, text = ''): Row[] =>
  Array.from({ length }, (_, place) => ({ ts: now - hourMs - place * apartMs, text: `${place} ${text}` }))

test('the silence beyond all rows is claimed with the rows next to it, and not with all rows once more', async () => {
  const { given, claimed } = await walk(rowsOf(5_001, minuteMs))
  expect(subtract([range], claimed)).toEqual([])
  // Two rows join a page to the one before.
  expect(Math.max(...given)).toBeLessThanOrEqual(102)
})

test('a walk ends where its pages have the rows of one millisecond stored again and again', async () => {
  const { given, reasons } = await walk(rowsOf(20_000, 0))
  expect(reasons).toEqual(['its pages show the times of the same rows again and again'])
  expect(sum(given)).toBeLessThan(bounds.walkRepeats + 5_000)
  expect((await walk(rowsOf(1_000, 0))).given).toContain(1_000)
})

test('walks together hold as much as one alone may', async () => {
  const rows = rowsOf(300, minuteMs, 'x'.repeat(bounds.walkLength / 400))
  const tooMuch = 'its pages are longer together than what is held of them'
  expect((await walk(rows)).reasons).not.toContain(tooMuch)
  const both = await Promise.all([walk(rows), walk(rows)])
  expect(both.flatMap(({ reasons }) => reasons)).toContain(tooMuch)
  // They hold nothing after their ends.
  expect((await walk(rows)).reasons).not.toContain(tooMuch)
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
