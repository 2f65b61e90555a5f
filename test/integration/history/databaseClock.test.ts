import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { candleStream } from '../../../src/db/series.js'
import { repairOf } from '../../../src/history/repairs.js'
import { leaseHolder } from '../../../src/lease/leaseRow.js'
import { type Slice, settleSlice, takeSlice } from '../../../src/ledger/slices.js'
import { insertWants, repairAttempts, wantStates } from '../../../src/ledger/wants.js'
import { hourMs, minuteMs } from '../../../src/market/values.js'
import { repairInVain } from '../../support/backfill.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

const now = Date.UTC(2026, 10, 20)
const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const
const range = { from: now - hourMs, to: now }

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(() => test.database.pool.query('truncate recorder.want cascade'))

const take = (worker: string) =>
  takeSlice(test.database.db, worker, ({ ranges }) => ranges, ['candles']) as Promise<Slice>
const wanted = () => insertWants(test.database.db, [repairOf(candleStream(series), [range])])
/** Moves a stored time ahead, as if the clock of the database had been set back by two hours since. */
const ahead = (table: string, column: string) =>
  test.database.pool.query(`update ${table} set ${column} = ${column} + interval '2 hours'`)

it('a slice of a worker that died before the clock was set back is free', async () => {
  await wanted()
  expect(await take('a')).toMatchObject({ ranges: [range] })
  expect(await take('b')).toBeNull()
  await ahead('recorder.slice', 'leased_until')
  expect(await wantStates(test.database.db, { limit: 1 })).toMatchObject([{ isRunning: false }])
  expect(await take('b')).toMatchObject({ ranges: [range] })
})

it('a want that failed before the clock was set back is tried again', async () => {
  await wanted()
  const slice = await take('a')
  await settleSlice(test.database.db, slice, {
    done: [],
    requests: 1,
    received: 0,
    inserted: 0,
    updated: 0,
    problem: 'away',
  })
  expect(await take('a')).toBeNull()
  await ahead('recorder.want', 'retry_at')
  expect(await take('a')).toMatchObject({ ranges: [range] })
})

it('a repair that ended before the clock was set back is due, and waits after its next end', async () => {
  const since = async () => (await repairAttempts(test.database.db, candleStream(series), [range]))[0]?.sinceMs
  await repairInVain(test.database.db, candleStream(series), [range], 1)
  expect(await since()).toBeLessThan(minuteMs)
  await ahead('recorder.want', 'ended_at')
  expect(await since()).toBeGreaterThan(hourMs)
  await repairInVain(test.database.db, candleStream(series), [range], 1)
  expect(await since()).toBeLessThan(minuteMs)
})

it('a recorder that died before the clock was set back holds no address', async () => {
  await test.database.pool.query('truncate recorder.lease')
  await test.database.pool.query(`insert into recorder.lease (egress, owner, epoch, until, place)
    values ('x', 'y', 1, now() + interval '3 seconds', 'z')`)
  expect(await leaseHolder(test.database.db, 'x')).toBe('recorder')
  await test.database.pool.query(`update recorder.lease set place = 'command on here'`)
  expect(await leaseHolder(test.database.db, 'x')).toBe('command')
  await ahead('recorder.lease', 'until')
  expect(await leaseHolder(test.database.db, 'x')).toBeNull()
})
