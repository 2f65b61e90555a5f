import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { adoptArchive } from '../../../../src/files/archive/adopt.js'
import { removeArchived } from '../../../../src/files/archive/removal.js'
import { restoreArchive } from '../../../../src/files/archive/restore.js'
import { foldRestatement, lastRevision } from '../../../../src/ledger/restatements.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { archiveAll, hintsOf, rowsOf, temporaryArchive } from '../../../support/archives.js'
import { addCoverage } from '../../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { aCandle } from '../../../support/marketRows.js'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
// Changes belong together within 30 days of the server's clock, so the days are real ones.
const now = Math.floor(Date.now() / dayMs) * dayMs
// A chunk of candles holds seven days, and one of them has to end before the four days that stay, whatever day it is.
const from = now - 12 * dayMs
const hours = (now - from) / hourMs
const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1H' } as const
const before = { open: '40', high: '48', low: '36', close: '44', baseVolume: '5', quoteTurnover: '55' }
const after = { open: '10', high: '12', low: '9', close: '11', baseVolume: '20', quoteTurnover: '55' }

let created: TestDatabase
let archive: Awaited<ReturnType<typeof temporaryArchive>>
beforeEach(async () => {
  created = await createTestDatabase()
  archive = await temporaryArchive()
  await store(0, hours, before)
  await addCoverage(created.database.db, { stream: 'candles', ...series }, [{ from, to: now }])
})
afterEach(async () => {
  await archive.drop()
  await created.drop()
})

/** Stores candles of hours since the beginning. */
async function store(first: number, end: number, values: object): Promise<void> {
  const candles = Array.from({ length: end - first }, (_, i) =>
    aCandle({ ...series, openTime: from + (first + i) * hourMs, ...values }),
  )
  await upsertCandles(created.database.db, candles)
}

/** Stores candles at a quarter of the price, as history that was read again. A restatement was noticed a day before. */
async function restate(first: number, end: number): Promise<void> {
  const { db } = created.database
  const last = await lastRevision(db)
  await store(first, end, after)
  await foldRestatement(db, series, last)
  await sql`update recorder.restatement set detected_at = ${new Date(now - dayMs)}`.execute(db)
}

const archived = () => archiveAll(created.database, archive.target, now + dayMs)

async function views({ database }: TestDatabase): Promise<Record<string, unknown[]>> {
  const found: Record<string, unknown[]> = {}
  for (const name of ['candle_revisions', 'restatements', 'coverage', 'no_trade', 'gaps', 'candles']) {
    const { rows } = await sql`
      select * from ${sql.table(`market.${name}`)} as v order by to_jsonb(v)::text`.execute(database.db)
    found[name] = rows
  }
  return found
}

test('revisions of a restatement are told from others after days were archived, removed and restored', async () => {
  await store(3, 4, { ...before, close: '45' })
  await store(100, 101, { ...before, close: '45' })
  await restate(0, hours)
  const known = await views(created)
  expect(known['candle_revisions']?.map((row) => (row as { is_restatement: boolean }).is_restatement)).toContain(false)
  expect((await archived()).problems).toEqual([])
  const tables = [{ name: 'candles', retentionDays: 4 }]
  const { removed, kept } = await removeArchived(created.database, archive.target, tables, { now: () => now })
  expect(removed).not.toEqual([])
  expect(kept).toEqual([])
  expect((await archived()).problems).toEqual([])
  const copy = await createTestDatabase()
  try {
    const request = { tables: ['candles'], pointers: await hintsOf(archive.target) }
    const { problems } = await restoreArchive(copy.database, archive.target, request)
    expect(problems).toEqual([])
    expect(await views(copy)).toEqual(known)
  } finally {
    await copy.drop()
  }
})

test('days are written anew when a revision of theirs joins a restatement, or a restatement grows', async () => {
  await store(3, 4, after)
  await archived()
  expect(await rowsOf(archive.target, 'candle_revisions')).toMatchObject([{ is_restatement: 'f' }])
  await restate(100, 110)
  await archived()
  const revisions = await rowsOf(archive.target, 'candle_revisions')
  expect(revisions).toHaveLength(11)
  expect(new Set(revisions.map((row) => row['is_restatement']))).toEqual(new Set(['t']))
  expect(await rowsOf(archive.target, 'restatements')).toMatchObject([{ candles: '11' }])
  const last = await lastRevision(created.database.db)
  await store(120, 121, after)
  await foldRestatement(created.database.db, series, last)
  await archived()
  expect(await rowsOf(archive.target, 'restatements')).toMatchObject([{ candles: '12' }])
})

test('an adopted archive brings back what a dump did not know of a restatement yet', async () => {
  await restate(0, 24)
  await archived()
  const known = await views(created)
  const { db } = created.database
  await sql`update recorder.candle_revision set is_restatement = false where open_time > ${new Date(from)}`.execute(db)
  await sql`update recorder.restatement set candles = 1, to_time = ${new Date(from + hourMs)}`.execute(db)
  await adoptArchive(db, archive.target)
  const { candle_revisions: revisions, restatements } = await views(created)
  expect(revisions).toEqual(known['candle_revisions'])
  expect(restatements).toEqual(known['restatements'])
})
