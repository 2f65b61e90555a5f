import type { KyselyPlugin } from 'kysely'
import { expect, test } from 'vitest'
import { certify } from '../../../../src/files/archive/certify.js'
import { removeArchived } from '../../../../src/files/archive/removal.js'
import { readHints } from '../../../../src/files/iceberg/catalog.js'
import { archiveOfTest } from '../../../support/archiveOfTest.js'
import { archiveAll, disturbed, rowsOf } from '../../../support/archives.js'
import { addCoverage } from '../../../support/coverage.js'
import { insertFills } from '../../../support/insertFills.js'
import { aFill } from '../../../support/marketRows.js'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const from = Date.UTC(2026, 2, 1)
const series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' } as const

const own = archiveOfTest()

/** Stores and claims four fills a day of the days from `first` up to but not including `last`. */
async function record(first: number, last: number): Promise<void> {
  const [begin, end] = [from + first * dayMs, from + last * dayMs]
  const fills = Array.from({ length: (last - first) * 4 }, (_, i) =>
    aFill({ ts: begin + (i * dayMs) / 4, execId: `${first}-${i}` }),
  )
  await insertFills(own.created.database.db, fills)
  await addCoverage(own.created.database.db, series, [{ from: begin, to: end }])
}

test('who reads while a run tells its pointers sees no proof without its rows', async () => {
  await record(0, 2)
  await archiveAll(own.created.database, own.archive.target, from + 2 * dayMs + 2 * hourMs)
  await record(2, 3)
  let isDone = false
  const read = async (path: string) => {
    const bytes = await own.archive.target.read(path)
    if (!isDone && path.includes('fills/metadata/version-hint')) {
      isDone = true
      await archiveAll(own.created.database, own.archive.target, from + 3 * dayMs + 2 * hourMs)
    }
    return bytes
  }
  const range = { tables: ['fills'], from: '2026-03-01', to: '2026-03-04', isWanted: () => true }
  const pointers = await readHints({ ...own.archive.target, read })
  const { certificate } = await certify(own.archive.target, { pointers, ...range })
  expect(isDone).toBe(true)
  expect(certificate?.tables.map(({ rows }) => rows)).toEqual([12])
})

test('a removal leaves what a transaction wrote whose snapshot is older than the removal', async () => {
  await record(0, 10)
  const now = from + 10 * dayMs
  await archiveAll(own.created.database, own.archive.target, now)
  const { pool } = own.created.database
  // Leaves a mark, which the removal takes, and the writer goes on to see.
  await pool.query(`update market.fills set price = price where exec_id = '0-1'`)
  const writer = await pool.connect()
  await writer.query('begin isolation level repeatable read')
  await writer.query('select from recorder.service')
  let isWritten = false
  const write = async () => {
    isWritten = true
    await writer.query(`insert into market.fills (category, symbol, ts, exec_id, side, price, size, received_at)
      select category, symbol, ts, 'late', side, price, size, received_at from market.fills where exec_id = '0-1'`)
    await writer.query('commit')
  }
  const old = [{ name: 'fills', retentionDays: 4 }]
  await removeArchived(own.created.database, disturbed(own.archive.target, write), old, { now: () => now })
  writer.release()
  const { rows } = await pool.query(`select from market.fills where exec_id = 'late'`)
  const archived = (await rowsOf(own.archive.target, 'fills')).filter((row) => row['exec_id'] === 'late')
  expect([isWritten, rows.length + archived.length]).toEqual([true, 1])
})

test('a run reads what is noted of the days that it writes, and not of all days for each', async () => {
  const days = 20
  let read = 0
  const counting: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    transformResult({ result }) {
      read += result.rows.filter((row) => 'isArchived' in row).length
      return Promise.resolve(result)
    },
  }
  await record(0, days)
  const { database } = own.created
  const counted = { ...database, db: database.db.withPlugin(counting) }
  await archiveAll(counted, own.archive.target, from + days * dayMs + 2 * hourMs)
  expect(await rowsOf(own.archive.target, 'fills')).toHaveLength(4 * days)
  expect(read).toBeGreaterThanOrEqual(days)
  expect(read).toBeLessThan(10 * days)
})
