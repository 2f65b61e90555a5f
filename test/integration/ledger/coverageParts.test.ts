import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { intersect, normalized, type TimeRange } from '../../../src/market/timeRange.js'
import { dayMs, hourMs } from '../../../src/market/values.js'
import type { Series } from '../../../src/db/series.js'
import { fillNeighbours } from '../../../src/ledger/storePastFills.js'
import { seriesRanges } from '../../../src/ledger/read/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { insertFills } from '../../support/insertFills.js'
import { aFill, someTime } from '../../support/marketRows.js'
import { addCoverage } from '../../support/coverage.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(async () => {
  await sql`truncate recorder.ledger, market.fills`.execute(test.database.db)
})

const fills: Series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' }
const range = (from: number, to: number): TimeRange => ({ from: someTime + from, to: someTime + to })
/** As many ranges as make a part full, each of 1 ms, with a gap of 1 ms after it. */
const many = (from: number) => Array.from({ length: 128 }, (_, index) => range(from + 2 * index, from + 2 * index + 1))

const parts = async () =>
  (
    await sql<{ part: string; ranges: number; xmin: string }>`
      select part::text, xmin::text, (select count(*)::int from unnest(ranges)) as ranges
      from recorder.ledger where verdict = 'recorded' order by ledger.part`.execute(test.database.db)
  ).rows
const asRows = async () =>
  (
    await sql<TimeRange>`
      select from_time as "from", to_time as "to" from market.coverage where stream = 'fills' order by 1`.execute(
      test.database.db,
    )
  ).rows

describe('what is proven of fills', () => {
  it('goes on in a new part after a gap when one is full, and the full one is left alone', async () => {
    const { db } = test.database
    await addCoverage(db, fills, many(0))
    // It follows on, so it belongs to the part of the range before.
    await addCoverage(db, fills, [range(254, 260)])
    expect(await parts()).toHaveLength(1)
    await addCoverage(db, fills, [range(300, 310)])
    const before = await parts()
    expect(before.map(({ ranges }) => ranges)).toEqual([128, 1])
    await addCoverage(db, fills, [range(310, 320)])
    await addCoverage(db, fills, [range(400, 410)])
    const after = await parts()
    expect(after[0]).toEqual(before[0])
    expect(after.map(({ ranges }) => ranges)).toEqual([128, 2])
    expect((await asRows()).slice(-3)).toEqual([range(254, 260), range(300, 320), range(400, 410)])
  })

  it('is one range where a gap between two parts turns out to be none', async () => {
    const { db } = test.database
    await addCoverage(db, fills, many(0))
    await addCoverage(db, fills, [range(300, 310)])
    await addCoverage(db, fills, [range(255, 300)])
    expect(await parts()).toHaveLength(2)
    expect((await asRows()).at(-1)).toEqual(range(254, 310))
    const page = await seriesRanges(db, fills, range(256, 305))
    expect(page.covered).toEqual([range(256, 305)])
  })

  it('leads across two parts to the fill that comes next', async () => {
    const { db } = test.database
    const next = aFill({ ts: someTime + hourMs })
    await insertFills(db, [next])
    await addCoverage(db, fills, many(0))
    await addCoverage(db, fills, [range(300, hourMs)])
    const neighbours = () => fillNeighbours(db, { category: 'SPOT', symbol: 'BTCUSDT' }, range(250, 254), 0)
    expect(await neighbours()).toEqual({ above: null, below: null })
    await addCoverage(db, fills, [range(254, 300)])
    expect(await parts()).toHaveLength(2)
    expect(await neighbours()).toEqual({ above: next.ts, below: null })
  })

  it('is the same to every reader as if it were whole, whatever comes in whatever order', async () => {
    const { db } = test.database
    const start = fc.integer({ min: 0, max: 4_000 })
    const claim = fc.oneof(
      { weight: 1, arbitrary: start.map(many) },
      {
        weight: 4,
        arbitrary: fc.tuple(start, fc.integer({ min: 1, max: 30 })).map(([at, ms]) => [range(at, at + ms)]),
      },
      {
        weight: 1,
        arbitrary: fc.tuple(start, fc.integer({ min: 1, max: 900 })).map(([at, ms]) => [range(at, at + ms)]),
      },
    )
    const claims = fc.tuple(fc.array(claim, { minLength: 1, maxLength: 14 }), fc.boolean())
    let mostParts = 0
    await fc.assert(
      fc.asyncProperty(claims, start, async ([drawn, isInOrder], since) => {
        await sql`truncate recorder.ledger`.execute(db)
        const ordered = isInOrder ? drawn.toSorted((a, b) => (a[0]?.from ?? 0) - (b[0]?.from ?? 0)) : drawn
        for (const ranges of ordered) await addCoverage(db, fills, ranges)
        mostParts = Math.max(mostParts, (await parts()).length)
        const whole = normalized(ordered.flat())
        expect(await asRows()).toEqual(whole)

        const within = { from: someTime + since, to: someTime + since + 400 }
        const page = await seriesRanges(db, fills, within)
        expect(page.covered).toEqual(intersect(whole, [within]))
      }),
      { numRuns: 40 },
    )
    expect(mostParts).toBeGreaterThan(1)
  })

  it('is written in one part a page, however many gaps there were', async () => {
    const { db } = test.database
    const begin = -40 * dayMs
    for (let part = 0; part < 12; part++) await addCoverage(db, fills, many(begin + part * dayMs))
    const before = await parts()
    expect(before).toHaveLength(12)
    await addCoverage(db, fills, [range(0, 5)])
    await addCoverage(db, fills, [range(7, 9)])
    const after = await parts()
    expect(after.slice(0, 12)).toEqual(before)
    expect(after).toHaveLength(13)
  })

  it('is complete, and nothing of it is in two parts, when several write at the same time', async () => {
    const { db } = test.database
    await addCoverage(db, fills, many(0))
    const claimed = Array.from({ length: 6 }, (_, index) => range(300 + 20 * index, 310 + 20 * index))
    await Promise.all(claimed.map((one) => addCoverage(db, fills, [one])))
    expect(await asRows()).toEqual([...many(0), ...claimed])
    expect((await parts()).map(({ ranges }) => ranges).reduce((sum, ranges) => sum + ranges, 0)).toBe(128 + 6)
  })
})
