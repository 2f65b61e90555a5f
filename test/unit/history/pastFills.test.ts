import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fetchPastFills } from '../../../src/history/pastFills.js'
import type { Fill } from '../../../src/market/fill.js'

const base = Date.UTC(2026, 0, 1)

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

/** A history that gives the newest rows of what was asked for. */
function history(tape: readonly Fill[], isInclusive: boolean, lacks: (fill: Fill) => boolean = () => false) {
  return ({ startTime, endTime }: { readonly startTime: number; readonly endTime: number }) => {
    expect(endTime - startTime).toBeLessThanOrEqual(7 * 86_400_000)
    const isIn = ({ ts }: Fill) => (isInclusive ? ts >= startTime && ts <= endTime : ts > startTime && ts < endTime)
    const rows = tape.filter(isIn).slice(-1_000).toReversed()
    return Promise.resolve({
      rows: rows.filter((fill) => !lacks(fill)),
      rejected: [],
      rejectedUnkept: 0,
      surplusRows: 0,
    })
  }
}

function tapeOf(gaps: readonly number[]): Fill[] {
  let ts = base
  return gaps.map((pause, index) => fillAt(index, (ts += pause)))
}

test('the history of a range is all of it, however many fills share a millisecond, or nothing', async () => {
  await fc.assert(
    fc.asyncProperty(pauses, bounds, fc.boolean(), async (gaps, { start, end }, isInclusive) => {
      const tape = tapeOf(gaps)
      fc.pre(tape.length > 0)
      const at = (share: number) => tape[Math.min(tape.length - 1, Math.floor(share * tape.length))]?.ts ?? base
      const range = { from: Math.min(at(start), at(end)), to: Math.max(at(start), at(end)) }
      const wanted = tape.filter(({ ts }) => ts >= range.from && ts <= range.to)
      const found = await fetchPastFills(history(tape, isInclusive), range)
      if (found === null) return
      const ids = new Set(found.map(({ execId }) => execId))
      expect(wanted.filter(({ execId }) => !ids.has(execId))).toEqual([])
    }),
    { numRuns: 100 },
  )
})

test('thousands of fills come page by page', async () => {
  const tape = tapeOf(Array.from({ length: 3_500 }, (_, index) => index % 5))
  const found = await fetchPastFills(history(tape, true), { from: base, to: tape.at(-1)?.ts ?? base })
  expect(found?.length).toBe(3_500)
})

test('pages that do not share a fill where they meet are not believed', async () => {
  const tape = tapeOf(Array.from({ length: 2_500 }, () => 10))
  let pages = 0
  const lossy = async (query: { readonly startTime: number; readonly endTime: number }) => {
    const page = await history(tape, true)(query)
    return pages++ === 0 ? page : { ...page, rows: page.rows.slice(5) }
  }
  expect(await fetchPastFills(lossy, { from: base, to: tape.at(-1)?.ts ?? base })).toBeNull()
})
