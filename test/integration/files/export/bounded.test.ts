import { afterAll, beforeAll, expect, it } from 'vitest'
import { describeSource, selectFingerprint, selectRows } from '../../../../src/files/export/request.js'
import { dayMs } from '../../../../src/market/values.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'

const from = Date.UTC(2026, 0, 1)
const days = 200
let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
  const times = `generate_series(timestamptz '2026-01-01Z', timestamptz '2026-01-01Z' + interval '${days * 24 - 1} hours', '1 hour') as t`
  const symbols = `generate_series(1, 20) as i`
  await test.database.pool.query(`
    insert into market.fills (category, symbol, ts, exec_id, side, price, size, received_at)
    select 'SPOT', 'S' || i, t, t::text, 'buy', 1, 1, t from ${symbols}, ${times}`)
  await test.database.pool.query(`
    insert into market.candles select 'SPOT', 'S' || i, 'market', '1m', t, 1, 1, 1, 1, 1, 1, true from ${symbols}, ${times}`)
  await test.database.pool.query('vacuum analyze market.fills, market.candles')
})
afterAll(() => test?.drop())

interface Planned {
  readonly 'QUERY PLAN': [
    { Plan: { 'Shared Hit Blocks': number; 'Shared Read Blocks': number; 'Actual Rows': number } },
  ]
}

it.each(['fills', 'candles'])('a day of %s of all instruments is read, and not the whole table', async (what) => {
  const { pool } = test.database
  const source = await describeSource(test.database, what)
  const request = { what, source, folder: '', format: 'csv' as const, from, to: from + days * dayMs }
  const day = { from: from + 100 * dayMs, to: from + 101 * dayMs }
  const { rows: sizes } = await pool.query<{ pages: number }>(
    `select (sum(pg_relation_size(oid)) / 8192)::int as pages from pg_class where oid = 'market.${what}'::regclass
       or oid in (select inhrelid from pg_inherits where inhparent = 'market.${what}'::regclass)`,
  )
  for (const { sql, parameters } of [selectFingerprint(request, day), selectRows(request, day, (_, name) => name)]) {
    const { rows } = await pool.query<Planned>(`explain (analyze, buffers, timing off, format json) ${sql}`, [
      ...parameters,
    ])
    const plan = rows[0]?.['QUERY PLAN'][0].Plan
    const pages = (plan?.['Shared Hit Blocks'] ?? 0) + (plan?.['Shared Read Blocks'] ?? 0)
    expect(pages).toBeGreaterThan(0)
    expect(pages).toBeLessThan((sizes[0]?.pages ?? 0) / 2)
  }
})
