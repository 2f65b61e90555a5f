import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { TimeRange } from '../../../src/market/timeRange.js'
import type { Batch, FillBatch } from '../../../src/ledger/batch.js'
import { storeBatches, type StoredBatch } from '../../../src/ledger/storeBatches.js'
import { rejectedRow } from '../../../src/market/rejectedRow.js'
import { callFunction } from '../../../src/db/database.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aFill, someTime } from '../../support/marketRows.js'
import { batchOf } from '../../support/batches.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
const clear = () => sql`truncate market.fills, recorder.ledger, recorder.rejected_row`.execute(test.database.db)
beforeEach(clear)

const at = (ms: number) => someTime + ms

/** A page of fills at these milliseconds, asked for long after all of them had settled, unless it is said otherwise. */
function page(times: readonly number[], { symbol = 'BTCUSDT', requested = Math.max(0, ...times) + 60_000 } = {}) {
  const rows = times.map((ms) => aFill({ symbol, execId: `id ${ms}`, ts: at(ms) })).toReversed()
  return batchOf('fills', { category: 'SPOT', symbol }, rows, at(requested)) as FillBatch
}
const every = (stepMs: number, from: number, to: number) =>
  Array.from({ length: Math.ceil((to - from) / stepMs) }, (_, index) => from + index * stepMs)

async function store(...batches: Batch[]): Promise<StoredBatch[]> {
  const outcomes = await storeBatches(test.database.db, batches)
  return outcomes.map((outcome) => {
    if (!outcome.isStored) throw outcome.error
    return outcome
  })
}

async function ranges(table: 'coverage' | 'gaps', symbol = 'BTCUSDT'): Promise<[number, number][]> {
  const { rows } = await sql<TimeRange>`
    select from_time as "from", to_time as "to" from ${sql.table(`market.${table}`)}
    where stream = 'fills' and symbol = ${symbol} ${sql.raw(table === 'gaps' ? `and state <> 'repaired'` : '')}
    order by 1`.execute(test.database.db)
  return rows.map(({ from, to }) => [from - someTime, to - someTime])
}
const claimed = (symbol?: string) => ranges('coverage', symbol)
const lost = (symbol?: string) => ranges('gaps', symbol)
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
      ['SPOT'],
      ['BTCUSDT'],
      [`{[${new Date(at(101)).toISOString()},${new Date(at(50_000)).toISOString()})}`],
    )
    const beyond = aFill({ symbol: 'BTCUSDT', execId: 'id 60000', ts: at(60_000) })
    await sql`insert into market.fills (category, symbol, ts, exec_id, side, price, size, received_at, source)
      values ('SPOT', 'BTCUSDT', ${new Date(beyond.ts).toISOString()}, ${beyond.execId}, ${beyond.side}, ${beyond.price}, ${beyond.size}, now(), 'history')`.execute(
      test.database.db,
    )
    await store(page([60_000]))
    expect(await lost()).toEqual([[50_000, 60_001]])
  })
})
