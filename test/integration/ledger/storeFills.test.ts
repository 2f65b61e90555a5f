import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Fill, fillsPerPage } from '../../../src/market/rows.js'
import { dayMs, hourMs } from '../../../src/market/values.js'
import type { Batch } from '../../../src/ledger/batch.js'
import { loseGaps } from '../../../src/ledger/gaps.js'
import { storeFills } from '../../../src/ledger/storeFills.js'
import { callFunction } from '../../../src/db/database.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aFill, someTime } from '../../support/marketRows.js'
import { at, every, fillPage as page, fillRanges, storeAll } from '../../support/fillPages.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
const clear = () => sql`truncate market.fills, recorder.ledger, recorder.rejected_row`.execute(test.database.db)
beforeEach(clear)

const full = (stepMs: number, to: number, options = {}) => page(every(stepMs, to - fillsPerPage * stepMs, to), options)
const store = (...batches: Batch[]) => storeAll(test.database.db, batches)
const claimed = (symbol?: string) => fillRanges(test.database.db, 'coverage', symbol)
const lost = (symbol?: string) => fillRanges(test.database.db, 'gaps', symbol)
const count = async () =>
  Number((await sql<{ n: number }>`select count(*) as n from market.fills`.execute(test.database.db)).rows[0]?.n)

describe('pages of fills', () => {
  it('that share a fill are one run', async () => {
    expect(await store(full(10, 1_000))).toMatchObject([{ inserted: 100, gapsFound: 0 }])
    expect(await store(full(10, 1_600))).toMatchObject([{ inserted: 60, unchanged: 40, gapsFound: 0 }])
    expect(await store(full(10, 2_000))).toMatchObject([{ inserted: 40, unchanged: 60, gapsFound: 0 }])
    expect(await store(full(10, 2_000))).toMatchObject([{ inserted: 0, unchanged: 100, gapsFound: 0 }])
    expect(await claimed()).toEqual([[1, 1_990]])
    expect(await lost()).toEqual([])
  })

  it('that never share one, and are asked for before any fill of theirs has settled, leave gaps from the first on', async () => {
    const early = (from: number) => page(every(10, from, from + 1_000), { requested: from + 1_100 })
    expect(await store(early(0))).toMatchObject([{ gapsFound: 0 }])
    for (const from of [2_000, 4_000]) expect(await store(early(from))).toMatchObject([{ gapsFound: 1 }])
    expect(await claimed()).toEqual([])
    expect(await lost()).toEqual([[1, 4_001]])
    // Pages that come late prove all of it.
    for (const to of [1_900, 2_800, 3_700, 4_600]) await store(full(10, to, { requested: 60_000 }))
    expect(await claimed()).toEqual([[1, 4_989]])
    expect(await lost()).toEqual([])
  })

  it('that share only their edge leave a gap from the first fill on, where no claim goes before', async () => {
    const early = (from: number, to: number, requested = to + 50) => page(every(4, from, to), { requested })
    for (const from of [0, 396, 600]) await store(early(from, from + 400))
    expect([await claimed(), await lost()]).toEqual([[], [[1, 397]]])
    await store(early(900, 9_000, 15_000))
    expect([await claimed(), await lost()]).toEqual([[[397, 8_996]], [[1, 397]]])
    // A page that comes late shows that nothing was missing.
    await store(early(0, 800, 60_000))
    expect([await claimed(), await lost()]).toEqual([[[1, 8_996]], []])
  })

  it('that show the oldest fill of all, or join what they go on from, leave none before the first claim', async () => {
    await store(page([100], { requested: 200 }))
    await store(page([100, 300], { requested: 400 }))
    const { rows, ...batch } = page([100, 300, 500, 700, 900], { requested: 1_000 })
    const [newest, ...others] = rows
    await store({ ...batch, rows: [...others.slice(0, 2), newest, ...others.slice(2)] })
    for (const from of [100, 300, 700, 1_100])
      await store(page(every(200, from, from + 1_000), { requested: from + 1_000 }))
    expect([await claimed(), await lost()]).toEqual([[], []])
    await store(page(every(200, 1_500, 3_500), { requested: 60_000 }))
    expect([await claimed(), await lost()]).toEqual([[[101, 3_300]], []])
  })

  it('of one instrument are not judged in one call', async () => {
    const call = storeFills(test.database.db, [full(10, 1_000), full(10, 1_600)])
    await expect(call).rejects.toThrow('two pages of one instrument')
    expect(await count()).toBe(0)
  })

  it('that do not share one leave a gap, and pages that come late close it', async () => {
    await store(full(10, 1_000))
    expect(await store(full(10, 3_500))).toMatchObject([{ inserted: 100, gapsFound: 1 }])
    expect(await claimed()).toEqual([
      [1, 990],
      [2_501, 3_490],
    ])
    expect(await lost()).toEqual([[990, 2_501]])
    await store(full(10, 1_800))
    expect(await lost()).toEqual([[1_790, 2_501]])
    await store(full(10, 2_600))
    expect(await claimed()).toEqual([[1, 3_490]])
    expect(await lost()).toEqual([])
  })

  it('that come late and join the run after a gap leave of the gap what is before them', async () => {
    await store(full(10, 1_000))
    await store(full(10, 3_500))
    await store(full(10, 2_990))
    expect(await lost()).toEqual([[990, 1_991]])
    await store(full(10, 1_980))
    await store(full(10, 2_100))
    expect(await claimed()).toEqual([[1, 3_490]])
    expect(await lost()).toEqual([])
  })

  it('that come late close gaps that are lost, too, and note no part of them again', async () => {
    await store(full(10, 1_000))
    await store(full(10, 5_500))
    await loseGaps(test.database.db, 'fills', 'infinity')
    await store(full(10, 3_000))
    expect(await lost()).toEqual([
      [990, 2_001],
      [2_990, 4_501],
    ])
    for (const to of [1_900, 2_500, 3_900, 4_800]) await store(full(10, to))
    expect(await claimed()).toEqual([[1, 5_490]])
    expect(await lost()).toEqual([])
  })

  it('of many instruments are judged in one call, each by its own', async () => {
    await store(full(10, 1_000, { symbol: 'A' }), full(10, 1_000, { symbol: 'B' }))
    const stored = await store(
      full(10, 1_000, { symbol: 'C' }),
      full(10, 5_000, { symbol: 'B' }),
      full(10, 1_500, { symbol: 'A' }),
    )
    expect(stored).toMatchObject([{ gapsFound: 0 }, { gapsFound: 1 }, { inserted: 50, gapsFound: 0 }])
    expect([await claimed('A'), await lost('A'), (await lost('B')).length]).toEqual([[[1, 1_490]], [], 1])
  })

  it('may hold a fill twice', async () => {
    const { rows, ...batch } = page([10, 20, 30])
    expect(await store({ ...batch, rows: [...rows, rows[0]] })).toMatchObject([
      { inserted: 3, unchanged: 1, rejected: 0 },
    ])
  })

  it('are stored by two recorders at once without a deadlock or a gap', async () => {
    const all = Array.from({ length: 8 }, (_, index) => `N${index}`)
    for (let to = 1_000; to <= 3_000; to += 500) {
      const call = (symbols: readonly string[]) => store(...symbols.map((symbol) => full(10, to, { symbol })))
      const stored = await Promise.all([call(all), call(all.toReversed()), call(all.slice(3))])
      for (const { gapsFound } of stored.flat()) expect(gapsFound).toBe(0)
    }
    for (const symbol of all) expect(await claimed(symbol)).toEqual([[1, 2_990]])
  })
})

describe('a gap', () => {
  it('that a claim fills is found without a look at thousands of others before and after it', async () => {
    const { db } = test.database
    // So many that a plan which looks at all of them once seems cheap.
    const others = 20_000
    await sql`
      insert into recorder.ledger (stream, category, symbol, verdict, part, ranges, reason)
      select 'fills', 'SPOT', 'BTCUSDT', 'missing', t, tstzmultirange(tstzrange(t, t + length)), 'lost on the way'
      from (
        select ${new Date(at(0))}::timestamptz + n * interval '1 minute' as t, interval '10 seconds' as length
        from generate_series(1, ${others}::integer) as n
        union all
        select ${new Date(at(-2 * dayMs))}::timestamptz - n * interval '1 minute', interval '10 seconds'
        from generate_series(1, ${others}::integer) as n
        union all
        select ${new Date(at(-2 * dayMs))}::timestamptz, interval '2 days'
      ) as found`.execute(db)
    await sql`analyze recorder.ledger`.execute(db)
    const read = await db.transaction().execute(async (trx) => {
      // The server counts on from what it has not reported yet of this connection's earlier transactions.
      const countReads = async () => {
        const { rows } = await sql<{ read: number }>`
          select (seq_tup_read + idx_tup_fetch)::int as read from pg_stat_xact_all_tables
          where relid = 'recorder.ledger'::regclass`.execute(trx)
        return rows[0]?.read ?? NaN
      }
      const before = await countReads()
      const claim = `{[${new Date(at(-60_000)).toISOString()},${new Date(at(70_000)).toISOString()})}`
      await callFunction(trx, 'recorder.close_gaps', 'fills', 'SPOT', 'BTCUSDT', '', '', claim, new Date(at(0)), 'live')
      return (await countReads()) - before
    })
    const found = await lost()
    expect(found).toHaveLength(2 * others)
    expect(found.slice(others, others + 2)).toEqual([
      [-2 * dayMs, -60_000],
      [120_000, 130_000],
    ])
    // An hour of them lies before the claim; each may be read twice.
    expect(read).toBeLessThan(500)
  })
})

describe('what is not claimed', () => {
  it('is the time in which fills may still turn up: the last seconds before a response', async () => {
    await store(full(100, 10_000, { requested: 10_000 }))
    expect(await claimed()).toEqual([[1, 8_000]])
    // Fills that come 0.4 and 1.5 seconds late.
    await store(
      page(
        [...every(100, 2_000, 12_000), 9_450, 9_550].toSorted((a, b) => a - b),
        { requested: 12_000 },
      ),
    )
    expect(await claimed()).toEqual([[1, 10_000]])
    expect(await count()).toBe(122)
    // It goes on when nothing else happens.
    const shown = [...every(100, 2_000, 12_000), 9_450, 9_550].toSorted((one, other) => one - other)
    await store(page(shown, { requested: 20_000 }))
    expect(await claimed()).toEqual([[1, 11_900]])
    expect(await lost()).toEqual([])
  })

  it('is what follows a fill that is dated ahead', async () => {
    const ahead = (times: readonly number[], requested: number) => page([...times, 60_000], { requested })
    await store(ahead(every(100, 100, 10_000), 10_000))
    // Ten seconds are lost: only the fill that is ahead joins the two.
    expect(await store(ahead(every(100, 20_100, 30_000), 30_000))).toMatchObject([{ gapsFound: 1 }])
    expect(await claimed()).toEqual([
      [101, 8_000],
      [20_101, 28_000],
    ])
    expect(await lost()).toEqual([[8_000, 20_101]])
    // Its time has come: it is still no bridge.
    await store(full(100, 70_000))
    expect((await claimed()).some(([from, to]) => from < 31_000 && to > 31_000)).toBe(false)
  })

  it('is anything by a page that leaves out a stored fill of its time', async () => {
    await store(full(10, 1_000))
    // One old fill, and the newest 99 of many.
    const lie = page([500, ...every(10, 20_010, 21_000)])
    expect(await store(lie)).toMatchObject([{ inserted: 99, gapsFound: 0 }])
    expect((await store(lie))[0]?.remarks.join()).toMatch(/SPOT BTCUSDT left out \d+ stored fills .*proves nothing/)
    // The fills that it left out are contradicted, until a response shows them again.
    const hidden = every(10, 510, 990).map((ms) => [ms, ms + 1])
    expect(await lost()).toEqual([...hidden, [990, 991]].slice(0, -1))
    expect(await store(full(10, 21_500))).toMatchObject([{ gapsFound: 1 }])
    expect(await lost()).toEqual([...hidden, [990, 20_501]])
    await store(full(10, 1_000))
    expect(await lost()).toEqual([[990, 20_501]])
    expect(await claimed()).toEqual([
      [1, 990],
      [20_501, 21_490],
    ])
    const { rows } = await sql`select state from market.gaps where state = 'repaired'`.execute(test.database.db)
    expect(rows).toEqual([])
  })

  it('is no millisecond of the fills that a page of two leaves out, however many they are', async () => {
    await store(full(10, 1_000))
    await store(page([500, 990]))
    expect(await lost()).toEqual(every(10, 510, 990).map((ms) => [ms, ms + 1]))
  })

  it('is no millisecond of the newest hundred that pages of weeks leave out', async () => {
    const weeks = (from: number) => page(every(hourMs, from, 41 * dayMs), { requested: 41 * dayMs })
    for (const from of [0, 10, 20, 30]) await store(weeks(from))
    expect(await count()).toBe(4 * 41 * 24)
    const { rows } = await sql`select from recorder.ledger where verdict = 'disputed'`.execute(test.database.db)
    // The newest hundred of each response are partly those of the one before.
    expect(rows).toHaveLength(100 + 50 + 34)
    expect((await lost()).length).toBeLessThan(200)
  })

  it('is anything by an empty page, and by the first page after it the time before its oldest fill', async () => {
    await store(page([], { requested: 1_000 }))
    await store(page([], { requested: 60_000 }))
    expect(await claimed()).toEqual([])
    await store(page([61_000, 62_001, 63_000], { requested: 70_000 }))
    expect(await claimed()).toEqual([[61_001, 63_000]])
    expect(await lost()).toEqual([])
  })

  it('is the time by which fills run against their order, at both edges', async () => {
    const late = page([...every(100, 100, 5_000)], { requested: 60_000 })
    const [newest, ...others] = late.rows
    // The service shows the newest fill of the page 400 ms too far down.
    await store({ ...late, rows: [...others.slice(0, 3), newest, ...others.slice(3)] })
    expect(await claimed()).toEqual([[401, 4_600]])
    // One that shows less, and runs against the order as far, joins it and proves no more.
    await store({ ...late, rows: [...others.slice(1, 4), ...others.slice(0, 1), ...others.slice(4)] })
    expect(await claimed()).toEqual([[401, 4_600]])
    // Joined to a later page, its newer edge is proven, too.
    await store(page(every(100, 4_000, 9_000), { requested: 60_000 }))
    expect(await claimed()).toEqual([[401, 8_900]])
  })

  it('is the second of the oldest fill, where all times are whole seconds', async () => {
    await store(
      page(
        [1_000, 2_000, 3_000].map((ms) => ms - (someTime % 1_000)),
        { requested: 60_000 },
      ),
    )
    expect(await claimed()).toEqual([[2_000 - (someTime % 1_000), 3_000 - (someTime % 1_000)]])
  })

  it('is a millisecond that two responses share only at their edges', async () => {
    await store(page([10, 20, 30]), page([30, 40, 50], { symbol: 'OTHER' }))
    await store(page([30, 40, 50]))
    expect(await claimed()).toEqual([
      [11, 30],
      [31, 50],
    ])
    expect(await lost()).toEqual([[30, 31]])
  })

  it('is the millisecond of a fill that came again with another price: the second is kept', async () => {
    const first = full(10, 1_000)
    await store(first)
    const changed = first.rows.map((row) => (row.execId === 'id 500' ? aFill({ ...row, price: '7' }) : row))
    for (let times = 1; times <= 2; times++) {
      const [stored] = await store({ ...first, rows: changed, receivedAt: first.receivedAt + times })
      expect(stored).toMatchObject({ inserted: 0, rejected: 1, gapsFound: 0 })
      expect(stored?.remarks.join()).toMatch(/1 stored fills of SPOT BTCUSDT came again with other values/)
    }
    expect(await claimed()).toEqual([
      [1, 500],
      [501, 990],
    ])
    expect(await lost()).toEqual([[500, 501]])
    const { rows } = await sql<{ raw: string }>`
      select raw, times_seen as seen from recorder.rejected_row`.execute(test.database.db)
    expect(rows).toEqual([{ raw: expect.stringContaining('"price": "7"') as string, seen: 2 }])
    // What follows goes on. The contradiction ends with a response that shows the stored values, and comes again.
    await store(full(10, 1_500))
    expect(await claimed()).toEqual([
      [1, 500],
      [501, 1_490],
    ])
    await store(first)
    expect(await claimed()).toEqual([[1, 1_490]])
    expect(await lost()).toEqual([])
    await store({ ...first, rows: changed })
    expect(await claimed()).toEqual([
      [1, 500],
      [501, 1_490],
    ])
    expect(await lost()).toEqual([[500, 501]])
  })

  it('nor is one that stands in a page twice with different values', async () => {
    const first = full(10, 1_000)
    const twice = [...first.rows, aFill({ ...(first.rows[50] as Fill), size: '77' })]
    expect(await store({ ...first, rows: twice })).toMatchObject([{ inserted: 100, rejected: 1 }])
    expect(await claimed()).toEqual([
      [1, 490],
      [491, 990],
    ])
    expect(await lost()).toEqual([[490, 491]])
  })
})
