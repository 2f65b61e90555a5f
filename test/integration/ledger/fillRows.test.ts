import fc from 'fast-check'
import { type Kysely, sql } from 'kysely'
import { LosslessNumber } from 'lossless-json'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Fill } from '../../../src/market/rows.js'
import type { Database } from '../../../src/db/schema.js'
import { storeFills } from '../../../src/ledger/storeFills.js'
import type { FillBatch } from '../../../src/ledger/batch.js'
import { batchOf } from '../../support/batches.js'
import { traitsOf } from '../../../src/db/databaseError.js'
import { aFill, someTime } from '../../support/marketRows.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
beforeEach(async () => {
  await sql`truncate market.tickers, market.order_books, market.rpi_order_books, market.fills, recorder.rejected_row`.execute(
    test.database.db,
  )
})

/** Stores fills as pages of their instruments. */
async function insertFills(db: Kysely<Database>, fills: readonly Fill[]) {
  const pages = [...new Set(fills.map(({ symbol }) => symbol))].map((symbol) => {
    const rows = fills.filter((fill) => fill.symbol === symbol)
    return batchOf('fills', { category: 'SPOT', symbol }, rows, someTime) as FillBatch
  })
  const stored = await db.transaction().execute((trx) => storeFills(trx, pages))
  const sum = (name: 'inserted' | 'updated') => stored.reduce((total, page) => total + page[name], 0)
  return { inserted: sum('inserted'), updated: sum('updated') }
}

/** Decimals as a service may spell them. */
const decimal = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.stringMatching(/^(0|[1-9]\d{0,40})$/),
    fc.option(fc.stringMatching(/^\d{1,40}$/), { nil: undefined }),
  )
  .map(([sign, whole, fraction]) => `${sign}${whole}${fraction === undefined ? '' : `.${fraction}`}`)

/** numeric itself drops one thing only: the sign of zero. */
function asNumeric(text: string): string {
  return /^-[0.]*$/.test(text) ? text.slice(1) : text
}

describe('fills', () => {
  it('are stored once, however often they come', async () => {
    const { db } = test.database
    const fills = [aFill(), aFill({ execId: '2' }), aFill({ execId: '2' }), aFill({ symbol: 'ETHUSDT' })]
    expect(await insertFills(db, fills)).toEqual({ inserted: 3, updated: 0 })
    expect(await insertFills(db, fills)).toEqual({ inserted: 0, updated: 0 })
    expect(await insertFills(db, [])).toEqual({ inserted: 0, updated: 0 })
  })

  it('keep every decimal, character by character', async () => {
    const { db } = test.database
    let id = 0
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(decimal, decimal), { minLength: 1, maxLength: 50 }), async (pairs) => {
        const fills = pairs.map(([price, size]) => aFill({ execId: String(++id), price, size }))
        await insertFills(db, fills)
        const ids = fills.map(({ execId }) => execId)
        const stored = await db
          .selectFrom('market.fills')
          .select(['exec_id', 'price', 'size'])
          .where('exec_id', 'in', ids)
          .execute()
        const byId = new Map(stored.map((row) => [row.exec_id, row]))
        for (const { execId, price, size } of fills) {
          expect(byId.get(execId)).toMatchObject({ price: asNumeric(price), size: asNumeric(size) })
        }
      }),
      { numRuns: 40 },
    )
  })

  it('keep any text and any unknown field', async () => {
    const { db } = test.database
    let id = 0
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: 'grapheme' }),
        fc.dictionary(
          fc.string({ unit: 'grapheme' }).filter((key) => key !== '__proto__'),
          fc.string({ unit: 'grapheme' }),
        ),
        async (text, extra) => {
          const fill = aFill({ execId: `text ${++id}`, execLinkId: text, extra })
          await insertFills(db, [aFill({ execId: 'x', extra: { a: 1 } }), fill])
          const row = await db
            .selectFrom('market.fills')
            .select(['exec_link_id', 'extra'])
            .where('exec_id', '=', fill.execId)
            .executeTakeFirstOrThrow()
          // Of all text, the server can store everything but NUL.
          expect(row.exec_link_id).toBe(text.replaceAll('\0', '\u{fffd}'))
          expect(row.extra).toEqual(JSON.parse(JSON.stringify(extra).replaceAll('\\u0000', '\u{fffd}')))
        },
      ),
      { numRuns: 60 },
    )
  })

  it('keep NUL, lone surrogates and backslashes from breaking anything', async () => {
    const { db } = test.database
    const extra = { 'k\0"\\': 'v\0\ud800\\u0000', n: new LosslessNumber('1.2300000000000000000001') }
    await insertFills(db, [aFill({ execLinkId: 'a\0b"\\{},NULL', extra }), aFill({ execId: '2', execLinkId: 'NULL' })])
    const { rows } = await sql<{ link: string; extra: string }>`
      select exec_link_id as link, extra::text as extra from market.fills order by exec_id`.execute(db)
    expect(rows[0]).toEqual({
      link: 'a\u{fffd}b"\\{},NULL',
      extra: '{"n": 1.2300000000000000000001, "k\u{fffd}\\"\\\\": "v\u{fffd}\u{fffd}\\\\u0000"}',
    })
    expect(rows[1]?.link).toBe('NULL')
  })

  it('are all refused when one is impossible, with an error that tells so', async () => {
    const { db } = test.database
    for (const broken of [{ price: 'NaN' }, { price: '1,5' }, { price: '' }, { execId: '' }, { price: 'Infinity' }]) {
      const error: unknown = await insertFills(db, [aFill(), aFill({ execId: '2', ...broken })]).catch(
        (e: unknown) => e,
      )
      expect(traitsOf(error).isOfRow).toBe(true)
    }
    expect(await db.selectFrom('market.fills').select('exec_id').execute()).toEqual([])
  })

  it('are written in any number by two writers at once', async () => {
    const { db } = test.database
    const fills = Array.from({ length: 5_000 }, (_, i) => aFill({ execId: String(i), ts: someTime + (i % 977) }))
    const results = await Promise.all([insertFills(db, fills), insertFills(db, fills.toReversed())])
    expect(results.reduce((sum, { inserted }) => sum + inserted, 0)).toBe(5_000)
    const stored = await db.selectFrom('market.fills').select('exec_id').execute()
    expect(new Set(stored.map(({ exec_id }) => exec_id)).size).toBe(5_000)
    expect(stored).toHaveLength(5_000)
  })
})
