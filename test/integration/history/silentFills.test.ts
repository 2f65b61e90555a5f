import { afterAll, beforeAll, expect, it } from 'vitest'
import { instrumentStream, type Series } from '../../../src/db/series.js'
import type { ExchangeClient, Page } from '../../../src/exchange/client.js'
import { fillHistory, fillRefusals } from '../../../src/history/pastFills.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import type { Fill } from '../../../src/market/rows.js'
import { hourMs } from '../../../src/market/values.js'
import { coveredRanges } from '../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { insertFills } from '../../support/insertFills.js'
import { aFill } from '../../support/marketRows.js'

const now = Date.UTC(2026, 10, 20)

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())

it('a gap of an instrument that shows no fill closes once its category has shown the ids of live ones', async () => {
  const { db } = test.database
  const truth = [3, 2, 1].map((hours) => ({ ...aFill({ ts: now - hours * hourMs }), execId: `${hours}` }))
  const copied = truth.map((fill) => ({ ...fill, symbol: 'SOLUSDT' }))
  await insertFills(db, [...truth, ...copied])
  await db.updateTable('market.fills').set({ source: 'history' }).where('symbol', '=', 'SOLUSDT').execute()
  const pageOf = (rows: readonly Fill[]) =>
    Promise.resolve({ rows, rejected: [], unkept: 0, receivedAt: now, requestTime: now } as unknown as Page<Fill>)
  const client = {
    fills: () => pageOf([]),
    pastFills: ({ symbol: of, startTime, endTime }: { symbol: string; startTime: number; endTime: number }) =>
      pageOf(
        [...truth, ...copied]
          .filter((fill) => fill.symbol === of && fill.ts >= startTime && fill.ts <= endTime)
          .toReversed(),
      ),
  } as unknown as ExchangeClient
  const counts = { requests: 0, received: 0, inserted: 0, updated: 0 }
  const context = { client, request: {}, ask: <T>(send: () => Promise<T>) => send(), now: () => now, counts }
  const history = fillHistory(db)
  const range = { from: now - 2 * hourMs, to: now - hourMs }
  const [shown, silent, past] = [aFill({}).symbol, 'ETHUSDT', 'SOLUSDT'].map((of) =>
    instrumentStream('fills', { category: 'SPOT', symbol: of }),
  )
  const fetch = (series: typeof shown) => history.fetch(series as never, [range], context)
  // A process that has seen no fill of the category knows nothing of its ids.
  expect(await fetch(silent)).toEqual({ refused: [range] })
  // Fills that the history itself stored say nothing of live ids.
  expect(await fetch(past)).toEqual({ refused: [] })
  expect(await fetch(silent)).toEqual({ refused: [range] })
  expect(await listGaps(db)).toMatchObject([{ symbol: 'ETHUSDT', reason: fillRefusals.unproven }])
  expect(await fetch(shown)).toEqual({ refused: [] })
  expect(await fetch(silent)).toEqual({ refused: [] })
  expect(await listGaps(db)).toEqual([])
  expect(await coveredRanges(db, silent as Series)).toEqual([range])
})
