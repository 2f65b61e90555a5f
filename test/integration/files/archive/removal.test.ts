import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { removeArchived } from '../../../../src/files/archive/removal.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { insertFills } from '../../../support/insertFills.js'
import { forget } from '../../../../src/ledger/forget.js'
import { detectServer, hasHypertables } from '../../../../src/server/timescale/server.js'
import { applyRetention } from '../../../../src/server/timescale/retention.js'
import { archiveAll, disturbed, rowsOf, temporaryArchive } from '../../../support/archives.js'
import { addCoverage, coveredRanges } from '../../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { testStorage } from '../../../support/databaseServer.js'
import { untilSomebodyWaits } from '../../../support/lockWait.js'
import { login } from '../../../support/login.js'
import { aCandle, aFill } from '../../../support/marketRows.js'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const from = Date.UTC(2026, 2, 1)
const now = from + 10 * dayMs
const tables = [{ name: 'fills', retentionDays: 4 }]
const series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' } as const

let created: TestDatabase
let archive: Awaited<ReturnType<typeof temporaryArchive>>
beforeEach(async () => {
  created = await createTestDatabase()
  archive = await temporaryArchive()
  const { db } = created.database
  const fills = Array.from({ length: 40 }, (_, i) => aFill({ ts: from + (i * dayMs) / 4, execId: `${i}` }))
  await insertFills(db, fills)
  await addCoverage(db, series, [{ from, to: now }])
})
afterEach(async () => {
  await archive.drop()
  await created.drop()
})

async function days(): Promise<string[]> {
  const { rows } = await sql<{ day: string }>`
    select distinct (ts at time zone 'UTC')::date::text as day from market.fills order by 1`.execute(
    created.database.db,
  )
  return rows.map(({ day }) => day.slice(-2))
}
const remove = (target = archive.target) => removeArchived(created.database, target, tables, { now: () => now })
/** How many locks somebody waits for. */
const waiting = async () => {
  const { rows } = await created.database.pool.query<{ waiting: number }>(`
    select count(*)::integer as waiting from pg_locks
    where not granted and database = (select oid from pg_database where datname = current_database())`)
  return rows[0]?.waiting
}
const all = ['01', '02', '03', '04', '05', '06', '07', '08', '09', '10']

/** What is noted of the fills: what is claimed, and what is final. */
const noted = async (verdict: 'recorded' | 'final') => {
  const { rows } = await sql<{ ranges: string }>`
    select coalesce(range_agg(r), '{}')::text as ranges from recorder.ledger cross join lateral unnest(ranges) as r
    where stream = 'fills' and verdict = ${verdict}`.execute(created.database.db)
  return rows[0]?.ranges
}
const text = (time: number) => new Date(time).toISOString().slice(0, 10)
const spanOf = (begin: number, end: number) => `{["${text(begin)} 00:00:00+00","${text(end)} 00:00:00+00")}`

test('rows leave when their day is in the archive, and what was recorded of it is final then', async () => {
  expect(await remove()).toEqual({
    removed: [],
    kept: [{ table: 'fills', day: '2026-03-01', reason: 'it is not in the archive' }],
  })
  expect(await days()).toEqual(all)
  await archiveAll(created.database, archive.target, now)
  const before = await rowsOf(archive.target, 'fills')
  const { removed, kept } = await remove()
  expect(kept).toEqual([])
  expect(removed.length).toBeGreaterThan(0)
  expect(await days()).toEqual(all.slice(6))
  expect(await noted('final')).toBe(spanOf(from, from + 6 * dayMs))
  expect(await noted('recorded')).toBe(spanOf(from + 6 * dayMs, now))
  // A removed day is not archived again, as if it were empty.
  expect(await archiveAll(created.database, archive.target, now)).toMatchObject({ written: [], due: [] })
  expect(await rowsOf(archive.target, 'fills')).toEqual(before)
  expect((await remove()).removed).toEqual([])
})

test('rows that come to a removed day are appended to it, but for those that it has, and leave as well', async () => {
  const { database } = created
  await archiveAll(database, archive.target, now)
  await remove()
  const before = await rowsOf(archive.target, 'fills')
  const rare = { ...series, symbol: 'RAREUSDT' }
  await addCoverage(database.db, rare, [{ from, to: from + dayMs }])
  await insertFills(database.db, [
    aFill({ ts: from, execId: '0', price: '7' }),
    aFill({ ts: from + 5, execId: 'rare', symbol: 'RAREUSDT' }),
  ])
  expect((await archiveAll(database, archive.target, now)).written).toMatchObject([{ day: '2026-03-01', rows: 5 }])
  const after = await rowsOf(archive.target, 'fills')
  expect(after.filter(({ symbol }) => symbol === 'BTCUSDT')).toEqual(before)
  expect(after.filter(({ symbol }) => symbol === 'RAREUSDT')).toMatchObject([{ exec_id: 'rare' }])
  expect((await rowsOf(archive.target, 'coverage')).filter(({ symbol }) => symbol === 'RAREUSDT')).toHaveLength(1)
  expect((await remove()).kept).toEqual([])
  expect(await days()).toEqual(all.slice(6))
  expect(await archiveAll(database, archive.target, now)).toMatchObject({ written: [], due: [] })
  expect(await rowsOf(archive.target, 'fills')).toHaveLength(after.length)
  expect((await rowsOf(archive.target, 'coverage')).filter(({ symbol }) => symbol === 'RAREUSDT')).toHaveLength(1)
})

test('a login that may only record removes rows, too', async () => {
  await archiveAll(created.database, archive.target, now)
  const writer = await login(created, 'recorder_writer')
  try {
    const { kept } = await removeArchived(writer.database, archive.target, tables, { now: () => now })
    expect(kept).toEqual([])
  } finally {
    await writer.remove()
  }
  expect(await days()).toEqual(all.slice(6))
})

test('rows and their proof stay while somebody reads them, and older ones and other tables leave', async () => {
  const { database } = created
  await upsertCandles(database.db, [aCandle({ interval: '1H', openTime: from })])
  await archiveAll(database, archive.target, now)
  const both = [...tables, { name: 'candles', retentionDays: 5 }]
  const removeBoth = () => removeArchived(database, archive.target, both, { now: () => now })
  const reader = await database.pool.connect()
  try {
    await reader.query('begin')
    await reader.query(`select from market.fills where ts >= '2026-03-03' and ts < '2026-03-04'`)
    const { kept } = await removeBoth()
    const isHypertable = await hasHypertables(database.db)
    expect(kept).toMatchObject(isHypertable ? [{ table: 'fills', day: '2026-03-03' }] : [])
    expect(await days()).toEqual(all.slice(isHypertable ? 2 : 6))
    const keptFrom = from + (isHypertable ? 2 : 6) * dayMs
    expect(await coveredRanges(database.db, series)).toEqual([{ from: keptFrom, to: now }])
    expect(await database.db.selectFrom('market.candles').select('symbol').execute()).toEqual([])
  } finally {
    reader.release(true)
  }
  expect((await removeBoth()).kept).toEqual([])
  expect(await days()).toEqual(all.slice(6))
})

test('a writer that needs a new chunk while its claims are removed goes on, and rows leave the next time', async () => {
  const { database } = created
  await archiveAll(database, archive.target, now)
  const writer = await database.pool.connect()
  try {
    await writer.query('begin')
    await writer.query(`select from recorder.ledger where stream = 'fills' for update`)
    const removing = remove()
    // It may wait for VACUUM, too, before it comes to the ledger.
    await untilSomebodyWaits(database.db, ['transactionid', 'tuple'])
    await writer.query(
      `insert into market.fills (category, symbol, ts, exec_id, side, price, size, is_rpi, received_at)
       select category, symbol, ts + interval '30 days', 'new', side, price, size, is_rpi, received_at
       from market.fills where exec_id = '1'`,
    )
    await writer.query('commit')
    await removing
  } finally {
    writer.release(true)
  }
  expect((await remove()).kept).toEqual([])
  expect(await days()).toEqual([...all.slice(6), '31'].toSorted())
})

test('rows stay, with all after them, when the archive has something else, and leave when it has them', async () => {
  await archiveAll(created.database, archive.target, now)
  await sql`update market.fills set price = price + 1 where exec_id = '13'`.execute(created.database.db)
  await insertFills(created.database.db, [aFill({ ts: from + 3 * dayMs + 1, execId: 'late' })])
  expect((await remove()).kept).toEqual([
    {
      table: 'fills',
      day: '2026-03-04',
      reason: 'the archive has something else: other rows of fills of SPOT',
    },
  ])
  expect(await days()).toEqual(all.slice(3))
  const { written } = await archiveAll(created.database, archive.target, now)
  expect(written).toMatchObject([{ table: 'fills', day: '2026-03-04', rows: 5 }])
  expect((await remove()).kept).toEqual([])
  // The last day has just ended, and is not due yet.
  expect(await rowsOf(archive.target, 'fills')).toHaveLength(9 * 4 + 1)
})

test('a day that has not ended by its age stays whole, also where chunks are of hours', async () => {
  const { database } = created
  if (await hasHypertables(database.db))
    await database.pool.query(`select public.set_chunk_time_interval('market.fills', interval '6 hours')`)
  const times = [20, 21].flatMap((day) => [1, 7, 13].map((hour) => from + day * dayMs + hour * hourMs))
  await insertFills(
    database.db,
    times.map((ts) => aFill({ ts, execId: `${ts}` })),
  )
  await archiveAll(database, archive.target, from + 24 * dayMs)
  // The age of the table is over at 14 o'clock of the second of these days.
  const later = from + 25 * dayMs + 14 * hourMs
  const { kept } = await removeArchived(database, archive.target, tables, { now: () => later })
  expect(kept).toEqual([])
  expect(await days()).toEqual(['22'])
  expect(await database.db.selectFrom('market.fills').select('ts').execute()).toHaveLength(3)
  await insertFills(database.db, [aFill({ ts: times[0] ?? 0, execId: 'late' })])
  const { kept: late } = await removeArchived(database, archive.target, tables, { now: () => later })
  expect(late).toMatchObject([{ day: '2026-03-21' }])
  expect(await days()).toEqual(['21', '22'])
})

test('claims that the archive lacks stay, with their rows', async () => {
  await archiveAll(created.database, archive.target, now)
  const rare = { ...series, symbol: 'RAREUSDT' }
  await addCoverage(created.database.db, rare, [{ from, to: from + dayMs }])
  const reason = 'the archive has something else: other rows of coverage of fills'
  expect(await remove()).toEqual({ removed: [], kept: [{ table: 'fills', day: '2026-03-01', reason }] })
  await archiveAll(created.database, archive.target, now)
  expect((await remove()).kept).toEqual([])
})

test.for([
  ['while its day is removed', '0 days'],
  ['to an older day than were compared', '30 days'],
])('a row that comes %s stays', async ([, earlier]) => {
  await archiveAll(created.database, archive.target, now)
  const writer = await created.database.pool.connect()
  try {
    // Until the commit, nobody sees these rows, and nobody can remove any.
    const write = async () => {
      await writer.query('begin')
      await writer.query(
        `insert into market.fills (category, symbol, ts, exec_id, side, price, size, is_rpi, received_at)
         select category, symbol, ts - $1::interval, 'late', side, price, size, is_rpi, received_at
         from market.fills where exec_id = '1'`,
        [earlier],
      )
      await writer.query('lock table market.fills in share mode')
    }
    const removing = remove(disturbed(archive.target, write))
    await expect.poll(waiting, { interval: 50 }).toBe(1)
    await writer.query('commit')
    await removing
  } finally {
    writer.release()
  }
  const { rows } = await created.database.pool.query(`select exec_id from market.fills where exec_id = 'late'`)
  expect(rows).toHaveLength(1)
})

test('a claim that comes while its day is compared stays, with the rows', async () => {
  const { db } = created.database
  await archiveAll(created.database, archive.target, now)
  const rare = { ...series, symbol: 'RAREUSDT' }
  const range = { from, to: from + dayMs }
  const { removed, kept } = await remove(disturbed(archive.target, () => addCoverage(db, rare, [range])))
  const reason = 'its rows changed while days were compared'
  expect({ removed, kept }).toEqual({ removed: [], kept: [{ table: 'fills', day: '2026-03-01', reason }] })
  expect(await coveredRanges(db, rare)).toEqual([range])
  expect(await days()).toEqual(all)
})

test('a candle that is corrected while its day is removed stays, and comes back from the archive as corrected', async () => {
  const { database } = created
  const { db } = database
  const candles = Array.from({ length: 48 }, (_, hour) => aCandle({ interval: '1H', openTime: from + hour * hourMs }))
  await upsertCandles(db, candles)
  await convertToColumnstore('candles')
  await archiveAll(database, archive.target, now)
  // Chunks of candles are removed whole: the one of these days ends on 5 March.
  const old = [{ name: 'candles', retentionDays: 5 }]
  const removeOld = (target = archive.target) => removeArchived(database, target, old, { now: () => now })
  const corrected = aCandle({ interval: '1H', openTime: from + hourMs, close: '11.5' })
  const trx = await db.startTransaction().execute()
  const correct = async () => {
    await upsertCandles(trx, [corrected])
    // Not to be seen yet, and nobody can remove anything, until this is committed.
    await sql`lock table market.candles in share mode`.execute(trx)
  }
  const removing = removeOld(disturbed(archive.target, correct))
  await expect.poll(waiting, { interval: 50 }).toBe(1)
  await trx.commit().execute()
  const { removed, kept } = await removing
  expect({ removed, kept }).toMatchObject({ removed: [], kept: [{ table: 'candles', day: '2026-03-01' }] })
  const close = async () => {
    const { rows } = await sql<{ close: string }>`
      select close::text from market.candles where open_time = ${new Date(corrected.openTime)}`.execute(db)
    return rows.map((row) => row.close)
  }
  expect(await close()).toEqual(['11.5'])

  const { written } = await archiveAll(database, archive.target, now)
  expect(written).toMatchObject([{ table: 'candles', day: '2026-03-01', rows: 24 }])
  expect((await removeOld()).kept).toEqual([])
  expect(await close()).toEqual([])
  const revised = (await rowsOf(archive.target, 'candles')).filter((row) => Number(row.close) === 11.5)
  expect(revised).toHaveLength(1)
})

/** As the server does by itself to what is old, where it has one. */
async function convertToColumnstore(table: string): Promise<void> {
  const { db, pool } = created.database
  if ((await detectServer(db)).kind !== 'timescale-community') return
  const { rows } = await pool.query<{ chunk: string }>(`select public.show_chunks('market.${table}')::text as chunk`)
  for (const { chunk } of rows) await pool.query(`call public.convert_to_columnstore('${chunk}'::regclass)`)
  const query = `select is_compressed as is from timescaledb_information.chunks where hypertable_name = '${table}'`
  const { rows: converted } = await pool.query(query)
  expect(converted).toEqual(rows.map(() => ({ is: true })))
}

test('rows stay when a file of the archive is not what was written', async () => {
  await archiveAll(created.database, archive.target, now)
  const paths = await readdir(archive.folder, { recursive: true })
  const path = join(archive.folder, paths.find((one) => /fills.*day=2026-03-02.*\.parquet$/.test(one)) ?? '')
  await writeFile(path, (await readFile(path)).subarray(1))
  const { kept } = await remove()
  expect(kept[0]?.reason).toMatch(/^market\/fills\/data\/day=2026-03-02\/.* (cannot be read|is not what)/)
  expect(await days()).toEqual(all.slice(1))
})

test('the daemon leaves tables alone whose rows the archiver removes', async () => {
  const settings = { ...testStorage, fills: { ...testStorage.fills, retentionDays: 4, isArchived: true } }
  expect((await applyRetention(created.database.db, forget, settings, now)).removed).toEqual([])
  expect(await days()).toEqual(all)
})
