import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Batch } from '../../../src/ledger/batch.js'
import { rejectedRow } from '../../../src/market/rows.js'
import { hourMs } from '../../../src/market/values.js'
import { callFunction } from '../../../src/db/database.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aFill } from '../../support/marketRows.js'
import { at, every, fillPage as page, fillRanges, storeAll } from '../../support/fillPages.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
const clear = () => sql`truncate market.fills, recorder.ledger, recorder.rejected_row`.execute(test.database.db)
beforeEach(clear)

const store = (...batches: Batch[]) => storeAll(test.database.db, batches)
const claimed = (symbol?: string) => fillRanges(test.database.db, 'coverage', symbol)
const evidence = async () => {
  const { rows } = await sql`select from recorder.ledger where verdict = 'disputed'`.execute(test.database.db)
  return rows.length
}
const lost = (symbol?: string) => fillRanges(test.database.db, 'gaps', symbol)
/** Stores a fill as the history does, which may store more than it claims. */
async function storeAsHistory(ms: number): Promise<void> {
  const { ts, execId, side, price, size } = aFill({ symbol: 'BTCUSDT', execId: `id ${ms}`, ts: at(ms) })
  await sql`insert into market.fills (category, symbol, ts, exec_id, side, price, size, received_at, source)
    values ('SPOT', 'BTCUSDT', ${new Date(ts).toISOString()}, ${execId}, ${side}, ${price}, ${size}, now(), 'history')
  `.execute(test.database.db)
}

describe('what is not claimed', () => {
  it.each([
    ['its own time', (own: number) => ({ ts: own, price: 'n/a' }), [[500, 501]]],
    ['another time beside its own', (own: number) => ({ origin: { ts: own + 200 }, ts: own, price: 'n/a' }), []],
    ['no time of its own', (own: number) => ({ origin: { ts: own + 200 }, price: 'n/a' }), []],
  ])(
    'is the millisecond of a fill that could not be understood, or its page where it names %s',
    async (_, row, gaps) => {
      const whole = page(every(100, 100, 1_000).filter((ms) => ms !== 500))
      const rejected = [rejectedRow({ operation: 'fills', parameters: {} }, 'no price', JSON.stringify(row(at(500))))]
      await store({ ...whole, rejected })
      expect(await lost()).toEqual(gaps)
      expect(await claimed()).toEqual(
        gaps.length === 0
          ? []
          : [
              [101, 500],
              [501, 900],
            ],
      )
    },
  )

  it('is what lies before a page of one fill that the history has stored', async () => {
    await store(page([100, 1_000]))
    // A history claims up to a moment, and stores fills beyond it.
    await callFunction(
      test.database.db,
      'recorder.cover_fills',
      'SPOT',
      'BTCUSDT',
      `{[${new Date(at(101)).toISOString()},${new Date(at(50_000)).toISOString()})}`,
    )
    await storeAsHistory(60_000)
    await store(page([60_000]))
    expect(await lost()).toEqual([[50_000, 60_001]])
  })
  it('is what lies between a newer page and an older one that comes after it and shows only stored fills', async () => {
    const rejected = [rejectedRow({ operation: 'fills', parameters: {} }, 'no price', JSON.stringify({ ts: at(900) }))]
    await store({ ...page([500]), rejected })
    await store(page([900]))
    await store(page([500]))
    expect(await lost()).toEqual([[501, 901]])
    await store(page([500, 700, 900, 1_000]))
    expect(await claimed()).toEqual([[501, 1_000]])
    expect(await lost()).toEqual([])
  })

  it('is the time after a first page that proves nothing', async () => {
    const unread = rejectedRow({ operation: 'fills', parameters: {} }, 'no time', '{}')
    await store({ ...page(every(1_000, 0, 10_000)), rejected: [unread] })
    await store(page(every(1_000, 60_000, 90_000)))
    expect(await lost()).toEqual([[1, 61_000]])
  })

  it('is the millisecond of a late fill that could not be understood, unless a fill is stored there', async () => {
    const whole = page(every(100, 100, 2_000))
    const refused = (ms: number) =>
      rejectedRow({ operation: 'fills', parameters: {} }, 'no price', JSON.stringify({ ts: at(ms), price: 'n/a' }))
    await store(whole)
    await store({ ...whole, rejected: [refused(550), refused(700)] })
    expect(await lost()).toEqual([[550, 551]])
    expect(await claimed()).toEqual([
      [101, 550],
      [551, 1_900],
    ])
  })

  it('is what lies between two pages that share only a fill with two values', async () => {
    await store(page(every(100, 100, 1_050)))
    const next = page([1_300, ...every(100, 1_500, 2_050)])
    const other = { ...aFill({ symbol: 'BTCUSDT', execId: 'id 900', ts: at(900) }), price: '12' }
    // Times run against the order by 400 ms, so the page alone proves nothing so close to its oldest fill.
    await store({ ...next, rows: [...next.rows.slice(0, -1), other, ...next.rows.slice(-1)] })
    expect(await claimed()).toEqual([
      [101, 900],
      [901, 1_000],
      [1_301, 1_600],
    ])
    expect(await lost()).toEqual([
      [900, 901],
      [1_000, 1_301],
    ])
  })

  it('is that of a fill with two values, until a page shows it', async () => {
    const whole = page(every(100, 100, 1_000))
    await store(whole)
    await store({ ...whole, rows: whole.rows.map((row) => (row.ts === at(500) ? { ...row, price: '12' } : row)) })
    const without = page(every(100, 100, 1_000).filter((ms) => ms !== 500))
    const refused = rejectedRow({ operation: 'fills', parameters: {} }, 'no price', JSON.stringify({ ts: at(500) }))
    await store({ ...without, rejected: [refused] })
    expect(await evidence()).toBe(1)
    await store(whole)
    expect(await evidence()).toBe(0)
    expect(await claimed()).toEqual([[101, 900]])
  })

  it('is what lies before a page that shares only fills of the history', async () => {
    await store(page([100]))
    await storeAsHistory(61_005)
    await store(page([60_005, 61_005, 62_005]))
    expect(await lost()).toEqual([[101, 60_006]])
  })

  it('is the time before new fills in a claimed silence, from the newest fill stored before', async () => {
    await store(page(every(500, 0, 9_500)))
    // A history that is late shows nothing until then.
    const silence = `{[${new Date(at(9_000)).toISOString()},${new Date(at(100_000)).toISOString()})}`
    await callFunction(test.database.db, 'recorder.cover_fills', 'SPOT', 'BTCUSDT', silence)
    const burst = page(every(100, 80_000, 90_000))
    await store(burst)
    expect(await claimed()).toEqual([
      [1, 9_000],
      [80_001, 100_000],
    ])
    expect(await lost()).toEqual([[9_000, 80_001]])
    await store(burst)
    expect(await lost()).toEqual([[9_000, 80_001]])
    // A page that also shows a fill stored before lacks nothing after that one.
    await store(
      page([80_000, ...every(1_000, 80_050, 85_000), ...every(100, 80_100, 90_000)].toSorted((a, b) => a - b)),
    )
    expect(await lost()).toEqual([[9_000, 80_001]])
  })

  it('is that of each fill with another price; 10,000 of these are kept in an hour, and the others lose their claim', async () => {
    const { db } = test.database
    const first = page(every(10, 0, 1_000))
    await store(first)
    await sql`
      insert into recorder.rejected_row
        (digest, operation, parameters, reason, raw, raw_sha256, raw_bytes, first_seen_at, last_seen_at)
      select n::text, 'fills', '{}', '', '', '', 0, ${new Date(first.receivedAt)}, ${new Date(first.receivedAt)}
      from generate_series(1, 9998) as n`.execute(db)
    const changed = (price: string, afterMs: number) => {
      const rows = first.rows.map((row) => (/ [56]00$/.test(row.execId) ? aFill({ ...row, price }) : row))
      return { ...first, rows, receivedAt: first.receivedAt + afterMs }
    }
    const kept = async () => {
      const { rows } = await sql<{ price: string; seen: number }>`
        select raw::jsonb ->> 'price' as price, times_seen as seen from recorder.rejected_row where raw <> ''
        order by price`.execute(db)
      return rows.map(({ price, seen }) => [price, seen])
    }
    for (const [afterMs, price] of ['7', '8', '7'].entries())
      expect(await store(changed(price, afterMs + 1))).toMatchObject([{ rejected: 2 }])
    expect(await kept()).toEqual([
      ['7', 2],
      ['7', 2],
    ])
    expect(await claimed()).toEqual([
      [1, 500],
      [501, 600],
      [601, 990],
    ])
    await store(changed('9', hourMs + 10))
    expect(await kept()).toHaveLength(4)
  })
})
