import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ExchangeClient, Page } from '../../../src/exchange/client.js'
import { nextNumbered } from '../../../src/history/joinPages.js'
import { fetchPages } from '../../../src/history/pagesWalk.js'
import { fetchPastFills } from '../../../src/history/fillsWalk.js'
import { provenBy, provenSilence, runOf, shownFills } from '../../../src/ledger/run.js'
import type { Fill, RejectedRow } from '../../../src/market/rows.js'
import { intersect, normalized, subtract, type TimeRange, union } from '../../../src/market/timeRange.js'
import { dayMs } from '../../../src/market/values.js'

const base = Date.UTC(2026, 0, 1)
/** The reach of the history begins an hour before the tapes. */
const now = base + 90 * dayMs - 3_600_000

function fillAt(index: number, ts: number): Fill {
  const key = { category: 'SPOT', symbol: 'BTCUSDT', execId: String(index), execLinkId: null } as const
  return { ...key, ts, side: 'buy', price: '1', size: '1', isRpi: null, receivedAt: ts, extra: {} }
}

/** Pauses between fills, in milliseconds; several fills share a millisecond. */
const pauses = fc.array(
  fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 90_000_000 })),
  {
    maxLength: 3_500,
  },
)
const bounds = fc.record({
  start: fc.double({ min: 0, max: 1, noNaN: true }),
  end: fc.double({ min: 0, max: 1, noNaN: true }),
})

interface Tried {
  readonly stored: Set<string>
  readonly claimed: TimeRange[]
  readonly refused: readonly TimeRange[]
  readonly requests: number
  /** Reasons of what was refused. */
  readonly reasons: readonly string[]
}

/** Which of the rows of a window a page holds, if the window has more than a page. */
type Gives = 'newest' | 'oldest' | 'any' | 'newest hour'

/** How a history answers. */
interface History {
  readonly isInclusive?: boolean
  readonly isNumbered?: boolean
  readonly maxRequests?: number
  readonly pageRows?: number
  /** The most rows that an earlier page has, and one of another instrument. */
  readonly largestBefore?: number
  readonly largestOfOthers?: number
  /** What other pages have shown of it. */
  readonly disorder?: { readonly disorderMs: number; readonly disorderAt: number }
  readonly gives?: Gives
  /** True if pages show the newest rows, whatever was asked for. */
  readonly ignoresBounds?: boolean
  readonly rejected?: readonly Partial<Pick<RejectedRow, 'isRowStored' | 'raw'>>[]
  readonly cursor?: string | undefined
  /** Rows before this time cannot be understood. */
  readonly understoodSince?: number
}

/** Fetches ranges of a tape from a history. */
async function fetchFrom(
  tape: readonly Fill[],
  ranges: readonly TimeRange[],
  {
    isInclusive = true,
    isNumbered = false,
    maxRequests = 100,
    pageRows = 1_000,
    largestBefore = pageRows,
    largestOfOthers = 0,
    disorder = { disorderMs: 0, disorderAt: 0 },
    gives = 'newest',
    ignoresBounds = false,
    rejected = [],
    cursor,
    understoodSince = 0,
  }: History = {},
): Promise<Tried> {
  const stored = new Map<string, Fill>()
  let claimed: TimeRange[] = []
  let requests = 0
  const reasons: string[] = []
  const newestFirst = tape.toReversed()
  const pageOf = (all: readonly Fill[]) => {
    const rows = all.filter(({ ts }) => ts >= understoodSince)
    const unkept = all.length - rows.length
    return {
      rows,
      rejected,
      cursor,
      unkept,
      receivedAt: base,
      requestTime: base + 400 * dayMs,
    } as unknown as Page<Fill>
  }
  const count = () => {
    if (requests++ > maxRequests) throw new Error('too many requests')
  }
  const store = (fills: readonly Fill[], wanted: readonly TimeRange[]) => {
    for (const fill of fills) stored.set(fill.execId, fill)
    claimed = union(claimed, wanted)
    return Promise.resolve({ inserted: fills.length })
  }
  const numbered: Parameters<typeof fetchPages<Fill>>[0] = {
    reachMs: new Map(),
    pageRows,
    next: nextNumbered,
    ask(_, { page, limit }) {
      count()
      return Promise.resolve(pageOf(newestFirst.slice((page - 1) * limit, page * limit)))
    },
    textOf: ({ execId }) => execId,
    async store({ rows, proven, silent }) {
      const fresh = rows.filter(({ execId }) => !stored.has(execId)).length
      await store(rows, union(proven, silent))
      return { inserted: fresh, proven: union(proven, silent) }
    },
    explain: () => Promise.resolve(),
  }
  // Another instrument may have shown that the history reaches further back.
  const sizes = {
    largest: Math.max(largestOfOthers, largestBefore),
    largestOf: new Map([['BTCUSDT', largestBefore]]),
    reachMs: ignoresBounds ? now - base : 0,
    ...disorder,
    standsMs: 1_000,
    showsLiveIds: false,
  }
  const windowed: Parameters<typeof fetchPastFills>[0] = {
    sizesOf: () => sizes,
    ask(_, { window: { from, to } }) {
      count()
      const [start, end] = [from - 1, to]
      expect(end - start).toBeLessThanOrEqual(7 * dayMs)
      expect(from).toBeLessThan(to)
      const isIn = ({ ts }: Fill) => ignoresBounds || (isInclusive ? ts >= start && ts <= end : ts > start && ts < end)
      const inWindow = newestFirst.filter(isIn)
      const hourOf = ({ ts }: Fill) => Math.floor(ts / 3_600_000)
      // No page is cut in the millisecond beside a row.
      const isCut = (fill: Fill, place: number, [newest = fill]: Fill[]) =>
        gives === 'newest hour' && hourOf(fill) < hourOf(newest) && (inWindow[place - 1] ?? fill).ts - fill.ts > 1
      const cutAt = inWindow.findIndex(isCut)
      const rows = cutAt < 0 ? inWindow : inWindow.slice(0, cutAt)
      const skipped = Math.max(0, rows.length - pageRows)
      const any = skipped === 0 ? 0 : (requests * 7_919) % skipped
      const first = { newest: 0, 'newest hour': 0, oldest: skipped, any }[gives]
      const page = rows.slice(first, first + pageRows)
      return Promise.resolve(pageOf(gives === 'oldest' ? page.toReversed() : page))
    },
    neighbours: (_, { from, to }, slackMs) => {
      const times = [...stored.values()].map(({ ts }) => ts)
      const [above, below] = [times.filter((ts) => ts >= to + slackMs), times.filter((ts) => ts < from - slackMs)]
      return Promise.resolve({
        above: above.length === 0 ? null : Math.min(...above),
        below: below.length === 0 ? null : Math.max(...below),
      })
    },
    liveFills: () => Promise.resolve([]),
    async store({ asked, fills, other, around, largest, disorderMs, unread = [] }) {
      const shown = shownFills(asked, fills)
      const run = runOf(
        shown.rows.map(({ ts }) => ts),
        disorderMs,
      )
      const proven = subtract(union(provenBy(run, Infinity), provenSilence(shown, other, largest, around)), unread)
      const fresh = fills.filter(({ execId }) => !stored.has(execId)).length
      await store(fills, proven)
      return { inserted: fresh, showsLive: fresh < fills.length, refusal: null, proven }
    },
    explain: (_, __, reason) => Promise.resolve(void reasons.push(reason)),
  }
  const series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' } as const
  const client = {} as ExchangeClient
  const context = {
    client,
    request: {},
    counts: { received: 0, inserted: 0 },
    ask: <Row>(request: () => Promise<Page<Row>>) => request(),
    now: () => now,
  }
  const { refused } = isNumbered
    ? await fetchPages(numbered, series, ranges, context)
    : await fetchPastFills(windowed, series, ranges, context)
  return { stored: new Set(stored.keys()), claimed, refused, requests, reasons }
}

/** Makes fills with pauses between them. Their times may be earlier than their order says. */
function tapeOf(gaps: readonly number[], earlierMs = 0): Fill[] {
  let ts = base
  return gaps.map((pause, index) => fillAt(index, (ts += pause) - ((index * 7_919) % (earlierMs + 1))))
}

interface Service {
  readonly isNumbered?: true
  readonly pageRows: number
  readonly gives?: Gives
  readonly earlierMs?: number
}
/** A fill in the last second of an hour, and one at the beginning of the next hour. */
const aroundHour: [number[], { start: number; end: number }[]] = [[2, 89_999_900, 98], [{ start: 0, end: 0.7 }]]
const services: readonly Service[] = [
  { isNumbered: true, pageRows: 1_000 },
  { pageRows: 1_000 },
  { pageRows: 99 },
  { pageRows: 7 },
  { pageRows: 99, gives: 'oldest' },
  { pageRows: 7, gives: 'oldest' },
  { pageRows: 99, gives: 'any' },
  { pageRows: 1_000, gives: 'newest hour' },
  { pageRows: 1_000, earlierMs: 1_500 },
  { pageRows: 99, gives: 'oldest', earlierMs: 400 },
]

test.each(services)('what is claimed of a range is stored in full, and the rest is refused: %j', async (service) => {
  await fc.assert(
    fc.asyncProperty(
      pauses,
      fc.array(bounds, { minLength: 1, maxLength: 4 }),
      fc.boolean(),
      async (gaps, parts, isInclusive) => {
        const tape = tapeOf(gaps, service.earlierMs)
        fc.pre(tape.length > 0)
        const at = (share: number) => tape[Math.min(tape.length - 1, Math.floor(share * tape.length))]?.ts ?? base
        const ranges = normalized(
          parts.map(({ start, end }) => ({
            from: Math.min(at(start), at(end)),
            to: Math.max(at(start), at(end)) + 1,
          })),
        )
        const { stored, claimed, refused } = await fetchFrom(tape, ranges, {
          ...service,
          isInclusive,
          maxRequests: 20_000,
        })
        expect(subtract(ranges, union(claimed, refused))).toEqual([])
        const isClaimed = ({ ts }: Fill) => claimed.some(({ from, to }) => ts >= from && ts < to)
        expect(tape.filter((fill) => isClaimed(fill) && !stored.has(fill.execId))).toEqual([])
        // Only milliseconds are refused that hold more fills than a page with those next to them, and their neighbours.
        const fillsAround = (ts: number) => tape.filter((fill) => Math.abs(fill.ts - ts) <= 2).length
        const isCrowded = ({ from, to }: TimeRange) =>
          Array.from({ length: Math.min(to - from, 10) }, (_, place) => from + place).every(
            (ts) => fillsAround(ts) >= service.pageRows,
          )
        if (
          !['any', 'newest hour'].includes(service.gives ?? '') &&
          service.earlierMs === undefined &&
          service.isNumbered !== true
        )
          expect(refused.filter((range) => !isCrowded(range))).toEqual([])
      },
    ),
    {
      numRuns: 100,
      examples: [
        [[0, 1, 0, 0, 0, 1, 0, 0], [{ start: 0.125, end: 0 }], true],
        [...aroundHour, true],
        [...aroundHour, false],
      ],
    },
  )
})

test('thousands of fills come page by page, in little more than the least requests', async () => {
  const tape = tapeOf(Array.from({ length: 35_000 }, (_, index) => index % 5))
  const { stored, requests } = await fetchFrom(tape, [{ from: base, to: (tape.at(-1)?.ts ?? base) + 1 }])
  expect(stored.size).toBe(35_000)
  expect(requests).toBeLessThanOrEqual(1.1 * 35 + 2)
})

test.each([false, true])(
  'a remark about a row that is kept refuses nothing, a bad row does; numbered: %s',
  async (isNumbered) => {
    const tape = tapeOf(Array.from({ length: 900 }, () => 100))
    const range = { from: base + 10_000, to: base + 20_000 }
    const remarked = await fetchFrom(tape, [range], { isNumbered, rejected: [{ isRowStored: true }] })
    expect(remarked.refused).toEqual([])
    expect(subtract([range], remarked.claimed)).toEqual([])
    const bad = await fetchFrom(tape, [range], { isNumbered, rejected: [{ raw: '{}' }] })
    expect(bad).toMatchObject({ claimed: [], refused: [range] })
  },
)

test('an empty page that names a next one proves nothing, and is called so', async () => {
  const range = { from: base + 10_000, to: base + 20_000 }
  const tried = await fetchFrom([], [range], { cursor: '1' })
  expect(tried).toMatchObject({ claimed: [], refused: [range] })
  expect(tried.reasons).toEqual(['its history gives an empty page, and says that more rows follow'])
})

test('older rows that cannot be understood do not tell how far the history reaches, and are asked for once', async () => {
  const tape = tapeOf([1, ...Array.from({ length: 99 }, () => 1_000), 80 * dayMs, 1_000, 1_000])
  const range = { from: base + 78 * dayMs, to: base + 80 * dayMs }
  const tried = await fetchFrom(tape, [range], { understoodSince: base + dayMs, maxRequests: 20 })
  expect(tried).toMatchObject({ refused: [range], reasons: ['its history shows nothing older'] })
})

test.each([1_000, 900])('rows beyond what was asked for prove no silence, and cost few requests: %i', async (rows) => {
  const tape = tapeOf([2 * dayMs, ...Array.from({ length: rows - 1 }, () => 100)])
  const range = { from: base, to: base + dayMs }
  const tried = await fetchFrom(tape, [range], { ignoresBounds: true, maxRequests: 20 })
  expect(tried).toMatchObject({
    refused: [range],
    reasons: ['its history does not show this time twice in the same way'],
  })
  expect(intersect(tried.claimed, [range])).toEqual([])
})

test('a page that was cut in a millisecond proves no silence below it, whatever pages of others hold', async () => {
  const tape = tapeOf([dayMs, 1_000, 1_000, 1_000, 0, 0])
  const range = { from: base, to: base + dayMs + 4_000 }
  const tried = await fetchFrom(tape, [range], { pageRows: 3, largestBefore: 0, largestOfOthers: 1_000 })
  const missing = tape.filter(({ execId }) => !tried.stored.has(execId))
  expect(missing.filter(({ ts }) => tried.claimed.some(({ from, to }) => ts >= from && ts < to))).toEqual([])
})

test('times that ran against the order cost further requests for a day', async () => {
  const tape = tapeOf(Array.from({ length: 900 }, () => 100))
  const range = { from: base + 10_000, to: base + 20_000 }
  const requests = async (agoMs: number) => {
    const disorder = { disorderMs: 30_000, disorderAt: base + 400 * dayMs - agoMs }
    return (await fetchFrom(tape, [range], { disorder, maxRequests: 20_000 })).requests
  }
  expect(await requests(dayMs)).toBeGreaterThan(100)
  expect(await requests(dayMs + 1)).toBe(1)
})

test('fills further apart than a request reaches leave nothing unproven', async () => {
  const tape = tapeOf([1, 8, 7, 12, 6.5, 17, 7.001, 20, 1].map((days) => Math.round(days * dayMs)))
  const range = { from: base + 2 * dayMs, to: base + 79 * dayMs }
  const { claimed, refused, requests } = await fetchFrom(tape, [range], { maxRequests: 1_000 })
  expect({ refused, left: subtract([range], claimed) }).toEqual({ refused: [], left: [] })
  expect(requests).toBeLessThan(110)
})

test('gaps close to each other cost one request', async () => {
  const tape = tapeOf(Array.from({ length: 900 }, () => 100))
  const gaps = [10, 20, 30].map((second) => ({ from: base + second * 1_000, to: base + second * 1_000 + 500 }))
  expect((await fetchFrom(tape, gaps)).requests).toBe(1)
})
