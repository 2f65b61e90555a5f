import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { listNewest, readManifest } from '../../../../src/files/archive/manifest.js'
import { removeArchived } from '../../../../src/files/archive/removal.js'
import { restoreArchive } from '../../../../src/files/archive/restore.js'
import { pruneArchive, verifyArchive } from '../../../../src/files/archive/verify.js'
import { recordGap } from '../../../../src/ledger/gaps.js'
import { addCoverage } from '../../../../src/ledger/verdicts.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { archiveAll, temporaryArchive } from '../../../support/archives.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { insertFills } from '../../../support/insertFills.js'
import { aCandle, aFill } from '../../../support/marketRows.js'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const from = Date.UTC(2026, 2, 1)
const now = from + 10 * dayMs

let created: TestDatabase
let archive: Awaited<ReturnType<typeof temporaryArchive>>
beforeEach(async () => {
  created = await createTestDatabase()
  archive = await temporaryArchive()
})
afterEach(async () => {
  await archive.drop()
  await created.drop()
})

const run = () => archiveAll(created.database, archive.target, now)
const remove = (name: string, retentionDays: number) =>
  removeArchived(created.database, archive.target, [{ name, retentionDays }], { now: () => now })
const newest = async (table: string) =>
  Promise.all((await listNewest(archive.target, table)).map((place) => readManifest(archive.target, place)))

test('liquidations of one moment that differ in price or amount alone are kept apart', async () => {
  const { db } = created.database
  const insert = (prices: readonly string[]) =>
    sql`
    insert into market.liquidations (category, symbol, ts, side, price, amount, occurrence, received_at)
    select 'USDT-FUTURES', 'BTCUSDT', ${new Date(from)}, 'sell', price, 1, 1, now()
    from unnest(${prices}::numeric[]) as price`.execute(db)
  const stored = async () => {
    const { rows } = await sql<{ price: string }>`
      select price::text from market.liquidations order by liquidations.price`.execute(db)
    return rows.map(({ price }) => price)
  }
  await insert(['9.5', '10', '11'])
  await run()
  await sql`truncate market.liquidations`.execute(db)
  await sql`update recorder.archived_day set removed_at = now(), proof_digest = ''`.execute(db)
  await insert(['8', '10', '10.5'])
  expect((await run()).written).toMatchObject([{ table: 'liquidations', version: 2, rows: 5 }])
  await restoreArchive(created.database, archive.target, { tables: ['liquidations'] })
  expect(await stored()).toEqual(['8', '9.5', '10', '10.5', '11'])
  expect((await remove('liquidations', 1)).kept).toEqual([])
  expect(await stored()).toEqual([])
})

test('a day keeps the proof of a candle that began on a day that was removed', async () => {
  const { db } = created.database
  const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1D' } as const
  const opens = Array.from({ length: 9 }, (_, day) => from + day * dayMs + 16 * hourMs)
  await upsertCandles(
    db,
    opens.map((openTime) => aCandle({ ...series, openTime })),
  )
  await addCoverage(db, { stream: 'candles', ...series }, [{ from: from + 16 * hourMs, to: from + 9.5 * dayMs }])
  await run()
  const before = await newest('candles')
  expect(await remove('candles', 5)).toMatchObject({ removed: [expect.anything()], kept: [] })
  expect((await run()).written).toEqual([])
  expect(await newest('candles')).toEqual(before)
})

test('a run goes on from versions that killed runs did not note', async () => {
  const { database } = created
  const series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' } as const
  await insertFills(database.db, [aFill({ ts: from, execId: '0' })])
  await addCoverage(database.db, series, [{ from, to: now }])
  await run()
  await remove('fills', 5)
  const { target } = archive
  for (const isWritten of [true, false]) {
    const execId = isWritten ? '1' : '2'
    await insertFills(database.db, [aFill({ ts: from + Number(execId), execId })])
    const create = async (path: string, text: string) => {
      if (isWritten) await target.create(path, text)
      throw new Error('killed')
    }
    await expect(archiveAll(database, { ...target, create }, now)).rejects.toThrow('killed')
  }
  expect((await run()).problems).toEqual([])
  expect((await newest('fills'))[0]).toMatchObject({ rows: 3 })
  expect((await restoreArchive(database, target, { tables: ['fills'] })).problems).toEqual([])
})

test('rows stay when the database did not note the version that the archive has', async () => {
  const { database } = created
  await insertFills(database.db, [aFill({ ts: from })])
  await run()
  await sql`update recorder.archived_day set digest = ${'0'.repeat(64)}`.execute(database.db)
  const reason = expect.stringMatching(/another content in the archive/) as string
  expect(await remove('fills', 5)).toEqual({ removed: [], kept: [{ table: 'fills', day: '2026-03-01', reason }] })
  await run()
  expect((await remove('fills', 5)).kept).toEqual([])
})

test('a new version leaves the files alone that a snapshot needs of a pruned one', async () => {
  const { database } = created
  const change = async (execId: string) => {
    await insertFills(database.db, [aFill({ ts: from + Number(execId), execId })])
    await sql`update recorder.archived_day set proof_digest = ''`.execute(database.db)
    await run()
    const [manifest] = await newest('fills')
    return manifest?.files[0]?.path ?? ''
  }
  const first = await change('1')
  await change('2')
  await pruneArchive(archive.target, { needed: new Set([first]) })
  await change('3')
  const files = (await archive.target.list('table=fills/')).map(({ path }) => path)
  expect(files).toContain(first)
})

test('a day without rows is written again when its proof changes', async () => {
  const { db } = created.database
  const series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' } as const
  await addCoverage(db, series, [{ from, to: from + dayMs }])
  await recordGap(db, { ...series, range: { from: from + dayMs, to: from + 2 * dayMs }, reason: 'no network' })
  await addCoverage(db, series, [{ from: from + 2 * dayMs, to: from + 3 * dayMs }])
  await run()
  await sql`select recorder.lose_gaps('fills', ${new Date(now)})`.execute(db)
  expect((await run()).written).toMatchObject([{ day: '2026-03-02', version: 2, rows: 0 }])
  expect((await newest('fills'))[1]?.proof[0]?.gaps).toMatchObject([{ state: 'lost' }])
  await sql`delete from recorder.ledger where verdict = 'lost'`.execute(db)
  expect((await run()).written).toMatchObject([{ day: '2026-03-02', version: 3, rows: 0 }])
  expect((await newest('fills'))[1]?.proof).toEqual([])
  expect((await run()).written).toEqual([])
})

test('prune leaves everything while a file of a newest version is damaged', async () => {
  const { database } = created
  await insertFills(database.db, [aFill({ ts: from, execId: '1' })])
  await run()
  await insertFills(database.db, [aFill({ ts: from, execId: '2' })])
  await sql`update recorder.archived_day set proof_digest = ''`.execute(database.db)
  await run()
  await archive.target.remove((await newest('fills'))[0]?.files[0]?.path ?? '')
  await expect(pruneArchive(archive.target)).rejects.toThrow('fills-v2-0.parquet is missing')
  const paths = (await archive.target.list('manifests/')).map(({ path }) => path)
  expect(paths).toContain('manifests/table=fills/day=2026-03-01/v0001.json')
})

test('of a table that is kept whole, a damaged day is written anew if it is the newest one', async () => {
  const { database } = created
  const damage = async (at: number) => archive.target.remove((await newest('rpi_symbols'))[at]?.files[0]?.path ?? '')
  const problems = async () => {
    const found: string[] = []
    for await (const day of verifyArchive(archive.target, { database })) found.push(...day.problems)
    return found
  }
  for (const [i, symbol] of ['BTCUSDT', 'ETHUSDT'].entries()) {
    await sql`
      insert into market.rpi_symbols (category, symbol, valid_from)
      values ('SPOT', ${symbol}, ${new Date(from)})`.execute(database.db)
    await archiveAll(database, archive.target, now + i * dayMs)
  }
  await damage(1)
  const anew = expect.stringMatching(/is missing; the next market-recorder archive writes the day anew$/) as string
  expect(await problems()).toEqual([anew])
  expect((await archiveAll(database, archive.target, now + dayMs)).written).toMatchObject([
    { table: 'rpi_symbols', version: 2, rows: 2 },
  ])
  await pruneArchive(archive.target)
  expect(await problems()).toEqual([])
  await damage(0)
  expect(await problems()).toEqual([expect.stringMatching(/bring the day back from a copy of the archive$/)])
})

test('claims that the archive lacks stay, with their rows', async () => {
  const { db } = created.database
  const series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' } as const
  await insertFills(db, [aFill({ ts: from })])
  await addCoverage(db, series, [{ from, to: from + hourMs }])
  await run()
  await addCoverage(db, series, [{ from, to: from + dayMs }])
  const reason = 'the archive lacks what the database has proven of it since'
  expect(await remove('fills', 5)).toEqual({ removed: [], kept: [{ table: 'fills', day: '2026-03-01', reason }] })
  await run()
  expect(await remove('fills', 5)).toMatchObject({ removed: [expect.anything()], kept: [] })
  expect((await newest('fills'))[0]?.proof[0]?.coverage).toEqual([['2026-03-01T00:00:00Z', '2026-03-02T00:00:00Z']])
})

test('what is claimed stays as long as its rows', async () => {
  const { db } = created.database
  const series = { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1H' } as const
  const opens = Array.from({ length: 240 }, (_, hour) => from + hour * hourMs)
  await upsertCandles(
    db,
    opens.map((openTime) => aCandle({ ...series, openTime })),
  )
  await addCoverage(db, { stream: 'candles', ...series }, [{ from, to: now }])
  await run()
  await sql`update market.candles set close = close + 1 where open_time = ${new Date(from + 3 * dayMs)}`.execute(db)
  expect((await remove('candles', 3)).kept).toMatchObject([{ day: '2026-03-04' }])
  const { rows } = await sql<{ first: number; covered: number }>`
    select (select min(open_time) from market.candles) as first,
      (select min(from_time) from market.coverage) as covered`.execute(db)
  expect(rows[0]?.covered).toBe(rows[0]?.first)
})

test.each([
  ['was to be archived again', false],
  ['had left the database', true],
])('restore does not hide rows that came to a day that %s', async (_, isRemoved) => {
  const { database } = created
  const series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' } as const
  await insertFills(database.db, [aFill({ ts: from, execId: 'first' })])
  await addCoverage(database.db, series, [{ from, to: from + dayMs }])
  await run()
  if (isRemoved) await remove('fills', 5)
  await restoreArchive(database, archive.target, { tables: ['fills'] })
  expect((await run()).due.filter(({ day }) => day === '2026-03-01')).toEqual([])
  if (isRemoved) await remove('fills', 5)
  else await sql`update recorder.archived_day set proof_digest = ''`.execute(database.db)
  await insertFills(database.db, [aFill({ ts: from + 1, execId: 'late' })])
  await restoreArchive(database, archive.target, { tables: ['fills'] })
  expect((await run()).written).toMatchObject([{ day: '2026-03-01', version: 2, rows: 2 }])
})

test('restore opens no gap that has been closed since it was archived', async () => {
  const { database } = created
  const { db } = database
  const series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' } as const
  const [begin, middle, end] = [20, 22, 30].map((hours) => from + hours * hourMs) as [number, number, number]
  const close = async (until: number) => {
    await addCoverage(db, series, [{ from: begin, to: until }])
    await sql`
      select recorder.close_gaps('fills', 'SPOT', 'BTCUSDT', '', '',
        tstzmultirange(tstzrange(${new Date(begin)}, ${new Date(until)})))`.execute(db)
  }
  const gaps = async (of: TestDatabase) => {
    const { rows } = await sql<{ from: number; to: number; state: string }>`
      select from_time as from, to_time as to, state from market.gaps order by 1`.execute(of.database.db)
    return rows
  }
  await insertFills(db, [aFill({ ts: from }), aFill({ ts: from + dayMs, execId: '2' })])
  await recordGap(db, { ...series, range: { from: begin, to: end }, reason: 'no network' })
  await run()
  await close(middle)
  await restoreArchive(database, archive.target, { tables: ['fills'] })
  expect(await gaps(created)).toEqual([{ from: middle, to: end, state: 'open' }])
  await run()
  // The first day has left the database, and its proof in the archive stays as it was.
  await sql`delete from market.fills where ts < ${new Date(from + dayMs)}`.execute(db)
  await sql`update recorder.archived_day set removed_at = now() where day = '2026-03-01'`.execute(db)
  await close(end)
  await run()
  const other = await createTestDatabase()
  try {
    const before = await gaps(created)
    await restoreArchive(other.database, archive.target, { tables: ['fills'] })
    expect(await gaps(other)).toEqual(before)
  } finally {
    await other.drop()
  }
})

test('a column that the database does not have yet calls for a newer program, not for a copy of the archive', async () => {
  const { db } = created.database
  await insertFills(db, [aFill({ ts: from })])
  await sql`alter table market.fills add column fee numeric`.execute(db)
  await run()
  await sql`alter table market.fills drop column fee`.execute(db)
  const { restored, problems } = await restoreArchive(created.database, archive.target, { tables: ['fills'] })
  expect({ restored, problems }).toEqual({
    restored: [],
    problems: [
      'fills of 2026-03-01 has a column fee numeric, which the database does not have; nothing of fills of 2026-03-01 was restored: use the version of market-recorder that wrote the archive, or a newer one',
    ],
  })
})
