import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runArchive } from '../../../../src/files/archive/run.js'
import { rowsOf, temporaryArchive } from '../../../support/archives.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { insertFills } from '../../../support/insertFills.js'
import { aFill } from '../../../support/marketRows.js'

const ts = Date.UTC(2026, 2, 2)
const dayMs = 86_400_000

let source: TestDatabase
let other: TestDatabase
let archive: Awaited<ReturnType<typeof temporaryArchive>>
beforeAll(async () => {
  source = await createTestDatabase()
  other = await createTestDatabase()
  archive = await temporaryArchive()
  await insertFills(source.database.db, [aFill({ ts, execId: 'early' })])
})
afterAll(async () => {
  await archive.drop()
  await source.drop()
  await other.drop()
})

/** Begins a transaction that has written a fill. */
async function write({ url }: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(`begin; insert into market.fills (category, symbol, ts, exec_id, side, price, size, received_at)
    values ('SPOT', 'BTCUSDT', to_timestamp(${ts / 1000 + 1}), 'slow', 'buy', 1, 1, now())`)
  return client
}

test('a day waits for those who wrote to it before it was noted, and for nobody in another database', async () => {
  const [writer, stranger] = [await write(source), await write(other)]
  const request = { tables: ['fills'], afterHours: 1, snapshotDays: 30 }
  const run = runArchive(source.database, archive.target, request, { now: () => ts + 2 * dayMs })
  for (let asked = 0; asked < 3; await sleep(20)) {
    const { rows } = await other.database.pool.query(
      `select from pg_stat_activity where query like '%pg_locks%' and pid <> pg_backend_pid()`,
    )
    asked += rows.length
  }
  await writer.query('commit')
  await writer.end()
  await run
  await stranger.query('rollback')
  await stranger.end()
  const fills = await rowsOf(archive.target, 'fills')
  expect(new Set(fills.map((fill) => fill['exec_id']))).toEqual(new Set(['early', 'slow']))
})
