import fc from 'fast-check'
import { expect, test } from 'vitest'
import { countRepeated } from '../../../src/history/joinPages.js'
import { fetchPages } from '../../../src/history/pagesWalk.js'
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

interface Service {
  /** The time of each response. */
  readonly timeOf?: (request: number) => number
  /** The most rows of a page. */
  readonly most?: number
  readonly isOldestFirst?: boolean
  /** A cursor names the time of the last row, so that the next page lacks rows of that time. */
  readonly isByTime?: boolean
  /** The first responses lack the first row of the list. */
  readonly late?: number
  /** Rows that a page has beyond its limit. */
  readonly surplus?: number
}

/** Walks through a service with these rows. Resolves to what was stored, claimed and explained. */
async function walk(
  rows: readonly Row[],
  { timeOf = () => now, most = 100, isOldestFirst = false, isByTime = false, late = 0, surplus = 0 }: Service = {},
) {
  const all = isOldestFirst ? rows.toReversed() : rows
  const given: number[] = []
  let looks = 0
  const counts = new Map<string, number>()
  let requests = 0
  const reasons: string[] = []
  let claimed: readonly TimeRange[] = []
  const walking = fetchPages<Row>(
    {
      reachMs: new Map([[series.category, 60 * dayMs]]),
      pageRows: 100,
      next: (_, query, cursor) => (cursor === undefined ? null : { ...query, limit: 100, cursor }),
      ask(_, { limit, cursor = '0' }) {
        if (limit > 100) throw new Error(`a limit of ${limit} is refused`)
        const begin = Number(cursor)
        const list = requests < late ? all.slice(1) : all
        const shown = list.slice(begin, begin + Math.min(limit, most) + surplus)
        const end = begin + shown.length
        const page = { rows: shown, rejected: [], unkept: 0, requestTime: timeOf(++requests) }
        const other = list.findIndex(({ ts }, place) => place >= end && ts !== shown.at(-1)?.ts)
        const following = !isByTime ? end : other < 0 ? list.length : other
        return Promise.resolve((following < list.length ? { ...page, cursor: String(following) } : page) as never)
      },
      textOf({ text }) {
        looks++
        return text
      },
      store({ rows: some, proven, silent }) {
        given.push(some.length)
        for (const [text, count] of countsOf(some)) counts.set(text, Math.max(count, counts.get(text) ?? 0))
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
  const isClaimed = (ts: number) => claimed.some(({ from, to }) => ts >= from && ts < to)
  const truth = countsOf(rows.filter(({ ts }) => isClaimed(ts)))
  const lacking = [...truth].filter(([text, count]) => count !== counts.get(text))
  return { given, claimed, reasons, lacking, looks }
}

function countsOf(rows: readonly Row[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { text } of rows) counts.set(text, (counts.get(text) ?? 0) + 1)
  return counts
}

const rowsOf = (length: number, apartMs: number, text = ''): Row[] =>
  Array.from({ length }, (_, place) => ({ ts: now - hourMs - place * apartMs, text: `${place} ${text}` }))

test('the silence beyond all rows is claimed with the rows next to it, and not with all rows once more', async () => {
  const { given, claimed } = await walk(rowsOf(5_001, minuteMs))
  expect(subtract([range], claimed)).toEqual([])
  // Two rows join a page to the one before.
  expect(Math.max(...given)).toBeLessThanOrEqual(102)
})

test('a page costs no look at the rows of the pages before', async () => {
  const { looks, lacking } = await walk(rowsOf(20_000, minuteMs / 10))
  expect(lacking).toEqual([])
  expect(looks / 20_000).toBeLessThan(10)
})

test('a walk ends where its pages have the rows of one millisecond stored again and again', async () => {
  const { given, reasons } = await walk(rowsOf(20_000, 0))
  expect(reasons).toEqual(['its pages show the times of the same rows again and again'])
  expect(sum(given)).toBeLessThan(bounds.walkRepeats + 5_000)
  expect((await walk(rowsOf(1_000, 0))).given).toContain(1_000)
})

test('a walk stores each page once, however young the newest row is, and settles nothing that it showed before', async () => {
  const rows = rowsOf(5_000, minuteMs).map((row) => ({ ...row, ts: row.ts + hourMs }))
  const { given, claimed, reasons } = await walk(rows, { timeOf: (request) => now + request * 100 })
  expect(Math.max(...given)).toBeLessThanOrEqual(102)
  expect(reasons).toEqual([])
  expect(Math.max(...claimed.map(({ to }) => to))).toBe(now + 100 - minuteMs)
})

/** Rows of which many are equal: the newest come first. A crowded moment has more rows than a page. */
const equalRows = fc
  .array(
    fc.record({
      apartMs: fc.constantFrom(0, 1, minuteMs),
      letter: fc.constantFrom('a', 'b'),
      times: fc.oneof(
        { weight: 9, arbitrary: fc.integer({ min: 1, max: 4 }) },
        { weight: 1, arbitrary: fc.constant(13) },
      ),
    }),
    { minLength: 3, maxLength: 40 },
  )
  .map((moments) => {
    let ts = now - hourMs
    return moments.flatMap(({ apartMs, letter, times }) => {
      ts -= apartMs
      return Array.from({ length: times }, () => ({ ts, text: `${ts} ${letter}` }))
    })
  })

test('of equal rows a walk stores as many as there are, wherever it claims', async () => {
  await fc.assert(
    fc.asyncProperty(
      equalRows,
      fc.integer({ min: 3, max: 12 }),
      fc.boolean(),
      fc.boolean(),
      async (rows, most, isOldestFirst, isByTime) => {
        expect((await walk(rows, { most, isOldestFirst, isByTime })).lacking).toEqual([])
      },
    ),
    { numRuns: 2_000 },
  )
})

test('a moment of equal rows is claimed that pages cut and one page shows with rows on both sides', async () => {
  const pairs = rowsOf(500, minuteMs).flatMap((row) => [row, row])
  for (const most of [99, 100]) {
    const { claimed, lacking } = await walk(pairs, { most })
    expect(subtract([range], claimed)).toEqual([])
    expect(lacking).toEqual([])
  }
})

test.each(['first', 'last'])('the %s moment is not claimed as silence where pages cut it', async (place) => {
  const moment = (count: number, ts: number) => Array.from({ length: count }, () => ({ ts, text: `${ts}` }))
  const [newer, older] = [now - 2 * hourMs, now - 3 * hourMs]
  const crowd = moment(145, place === 'first' ? newer : older)
  const { claimed, lacking } = await walk(
    place === 'first' ? [...crowd, ...moment(5, older)] : [...moment(5, newer), ...crowd],
  )
  expect(claimed).not.toEqual([])
  expect(lacking).toEqual([])
})

test('rows of one time claim no side before the list was seen twice to begin with them', async () => {
  const rows = rowsOf(107, 0).map((row, place) => (place === 0 ? { ...row, ts: row.ts + minuteMs } : row))
  // Both sides of their moment, in which pages join.
  expect((await walk(rows.slice(1))).claimed).toHaveLength(2)
  // Two pages, then three for the end of the list. The sixth one shows that a row came before them.
  expect((await walk(rows, { late: 5 })).lacking).toEqual([])
})

test('a walk asks for no more rows than the service allows, though pages have more than they were asked for', async () => {
  const { claimed, reasons, lacking } = await walk(rowsOf(500, minuteMs), { surplus: 18 })
  expect(reasons.join()).not.toContain('refused')
  expect(claimed).not.toEqual([])
  expect(lacking).toEqual([])
})

test('walks together hold a bounded length, of which one alone may hold a part', async () => {
  const rows = rowsOf(300, minuteMs, 'x'.repeat(bounds.walkLength / 400))
  const tooMuch = 'its pages are longer together than what is held of them'
  expect((await walk(rows)).reasons).not.toContain(tooMuch)
  const all = await Promise.all(Array.from({ length: 6 }, () => walk(rows)))
  expect(all.flatMap(({ reasons }) => reasons)).toContain(tooMuch)
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
          const rows = tape.slice(from, page * pageRows - moved + pageRows)
          joined = [...joined, ...rows.slice(countRepeated(joined, rows, (row) => row))]
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
      expect(countRepeated(above, page, (row) => row)).toBe(repeated)
    }),
  )
})

test('a page of any length is joined at once', { timeout: 120_000 }, () => {
  // Comparing each beginning of the page with what ends above it takes a million times as long as one look at each row.
  const of = (row: string) => Array.from({ length: 500_000 }, () => row)
  const above = [...of('a'), ...of('a')]
  const page = [...of('a'), ...of('b')]
  expect(countRepeated(above, page, (row) => row)).toBe(500_000)
})
