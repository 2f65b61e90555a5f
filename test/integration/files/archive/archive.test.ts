import { cp, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { certify } from '../../../../src/files/archive/certify.js'
import { archivedTable } from '../../../../src/files/archive/tables.js'
import { restoreArchive } from '../../../../src/files/archive/restore.js'
import { marketTables } from '../../../../src/market/stream.js'
import { pruneArchive, verifyArchive } from '../../../../src/files/archive/verify.js'
import { withArchiveLock } from '../../../../src/files/archive/state.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { addNoTrade } from '../../../support/noTradeRanges.js'
import { insertFills } from '../../../support/insertFills.js'
import { addCoverage } from '../../../../src/ledger/verdicts.js'
import { recordGap } from '../../../../src/ledger/gaps.js'
import { archiveAll, everything, temporaryArchive } from '../../../support/archives.js'
import { insertFutures } from '../../../support/insertFutures.js'
import { loadCookbookMarket } from '../../../support/cookbookMarket.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { aCandle, aFill } from '../../../support/marketRows.js'
import { runProgram } from '../../../support/program.js'
import { readRepositoryFile } from '../../../support/repositoryFiles.js'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const from = Date.UTC(2026, 2, 2)
/** The market of the cookbook ends two days later. */
const later = from + 3 * dayMs
const candles = { category: 'SPOT', symbol: 'RAREUSDT', type: 'market', interval: '1H' } as const

let source: TestDatabase
/** Archive of the whole source. Tests change copies of it. */
let master: Awaited<ReturnType<typeof temporaryArchive>>
let written: Awaited<ReturnType<typeof archiveAll>>['written']
beforeAll(async () => {
  source = await createTestDatabase()
  const { db } = source.database
  await loadCookbookMarket(db)
  // Adds what the cookbook's market lacks: silence, a gap over midnight, and a candle that changed later.
  const hourly = [0, 1, 2, 5, 26].map((hour) => aCandle({ ...candles, openTime: from + hour * hourMs }))
  await upsertCandles(db, hourly)
  await addCoverage(db, { stream: 'candles', ...candles }, [{ from, to: from + 3 * hourMs }])
  await addNoTrade(db, candles, [{ from: from + 3 * hourMs, to: from + 5 * hourMs }])
  await recordGap(db, {
    stream: 'candles',
    ...candles,
    range: { from: from + 20 * hourMs, to: from + 26 * hourMs },
    reason: 'the service was away',
  })
  await upsertCandles(db, [aCandle({ ...candles, openTime: from + hourMs, close: '3.14000' })])
  const tickers = { stream: 'tickers', category: 'SPOT', symbol: '*', type: '', interval: '' } as const
  await recordGap(db, { ...tickers, range: { from: from + 10, to: from + 11 }, reason: 'the spool was full' })
  await insertFutures(db, from)
  const future = { category: 'USDT-FUTURES', symbol: 'BTCUSDT', type: '', interval: '' } as const
  await addCoverage(db, { stream: 'funding_rates', ...future }, [{ from, to: from + 12 * hourMs }])
  await addCoverage(db, { stream: 'liquidations', ...future }, [{ from, to: from + dayMs }])
  master = await temporaryArchive()
  written = [...(await archiveAll(source.database, master.target, later)).written]
  await sql`create table recorder.noted_day as table recorder.archived_day`.execute(db)
})
afterAll(async () => {
  await master.drop()
  await source.drop()
})

let archive: Awaited<ReturnType<typeof temporaryArchive>>
beforeEach(async () => {
  archive = await temporaryArchive()
  await cp(master.folder, archive.folder, { recursive: true })
  const { db } = source.database
  await sql`truncate recorder.archived_day`.execute(db)
  await sql`insert into recorder.archived_day table recorder.noted_day`.execute(db)
  return () => archive.drop()
})

async function verified(database = source.database) {
  const problems: string[] = []
  let compared = 0
  for await (const day of verifyArchive(archive.target, { database })) {
    problems.push(...day.problems)
    if (day.isEqual === true) compared++
  }
  return { problems, compared }
}

const wholeRange = { tables: marketTables, from: '2026-03-02', to: '2026-03-04', isWanted: () => true }

describe('an archive', () => {
  test('brings everything back into another database, proof included, and proves the same', async () => {
    expect(new Set(written.map(({ table }) => table))).toEqual(new Set(marketTables))
    const checked = await verified()
    expect(checked.problems).toEqual([])
    expect(checked.compared).toBe(written.filter(({ table }) => archivedTable(table).timeColumn).length)

    const copy = await createTestDatabase()
    const other = await temporaryArchive()
    try {
      const { restored } = await restoreArchive(copy.database, archive.target, { tables: marketTables })
      expect(restored.every(({ rows, inserted }) => rows === inserted)).toBe(true)
      expect(await everything(copy.database)).toEqual(await everything(source.database))
      const { restored: again } = await restoreArchive(copy.database, archive.target, { tables: marketTables })
      expect(again.every(({ inserted }) => inserted === 0)).toBe(true)
      expect(await everything(copy.database)).toEqual(await everything(source.database))

      await sql`truncate recorder.archived_day`.execute(copy.database.db)
      await archiveAll(copy.database, other.target, later)
      const certified = await certify(archive.target, wholeRange)
      expect(await certify(other.target, wholeRange)).toEqual(certified)
      const rare = certified.certificate?.tables
        .find(({ table }) => table === 'candles')
        ?.series.find(({ symbol }) => symbol === 'RAREUSDT')
      expect(rare).toMatchObject({ noTradeSeconds: 7200, completeness: expect.closeTo(5 / 48, 4) as number })
      expect(rare?.gaps).toEqual([
        { from: '2026-03-02T20:00:00Z', to: '2026-03-03T02:00:00Z', reason: 'the service was away', state: 'open' },
      ])
      expect(rare?.revisions).toHaveLength(1)
      const shareOf = (name: string) =>
        certified.certificate?.tables.find(({ table }) => table === name)?.series.map((one) => one.completeness)
      expect([shareOf('funding_rates'), shareOf('liquidations')]).toEqual([[0.25], [0.5]])
    } finally {
      await copy.drop()
      await other.drop()
    }
  })

  test('is written once: a second run finds nothing to do', async () => {
    const before = await readdir(archive.folder, { recursive: true })
    expect((await archiveAll(source.database, archive.target, later)).written).toEqual([])
    expect(await readdir(archive.folder, { recursive: true })).toEqual(before)
  })

  test('gets a new version of a day that changed, and keeps the old one until it is pruned', async () => {
    const { db } = source.database
    // More digits than any day had: the type of the column widens.
    const fill = aFill({ symbol: 'LATEUSDT', ts: from + hourMs, execId: 'late', price: '12345678.000000000012345' })
    await insertFills(db, [fill])
    const series = { stream: 'fills', category: 'SPOT', symbol: 'LATEUSDT', type: '', interval: '' } as const
    await addCoverage(db, series, [{ from, to: from + dayMs }])
    const changed = await archiveAll(source.database, archive.target, later)
    expect(changed.written.map(({ table, day, version }) => [table, day, version])).toEqual([
      ['fills', '2026-03-02', 2],
    ])
    expect((await verified()).problems).toEqual([])
    const all = await readdir(archive.folder, { recursive: true })
    expect(all.filter((path) => /fills-v[12]-/.test(path)).length).toBeGreaterThan(1)
    expect(await pruneArchive(archive.target)).toMatchObject({ versions: 1 })
    expect((await verified()).problems).toEqual([])
    const left = await readdir(archive.folder, { recursive: true })
    expect(left.filter((path) => path.includes('day=2026-03-02') && path.includes('fills-v1-'))).toEqual([])
    await sql`delete from market.fills where symbol = 'LATEUSDT'`.execute(db)
    await sql`delete from recorder.ledger where verdict = 'recorded' and symbol = 'LATEUSDT'`.execute(db)
  })

  test('never gets a version that has less: what is missing in the database is taken from the version before', async () => {
    const copy = await createTestDatabase()
    const whole = await createTestDatabase()
    try {
      // Another database, which has recorded a single fill of that day, and changed one.
      const { db } = copy.database
      const oldest = source.database.db.selectFrom('market.fills').selectAll().orderBy('ts')
      const known = await oldest.executeTakeFirstOrThrow()
      const { category, symbol, ts, exec_id: execId } = known
      const changed = aFill({ category, symbol, ts, execId, price: '7' })
      await insertFills(db, [aFill({ symbol: 'NEWUSDT', ts: from + 5, execId: 'one' }), changed])
      const series = { stream: 'fills', category: 'SPOT', symbol: 'NEWUSDT', type: '', interval: '' } as const
      await addCoverage(db, series, [{ from, to: from + hourMs }])
      const { written: anew } = await archiveAll(copy.database, archive.target, later)
      expect(anew.map(({ table, day, version }) => [table, day, version])).toEqual([['fills', '2026-03-02', 2]])
      const fills = async (database: typeof copy.database) =>
        (await everything(database))['market.fills']?.filter((row) => row.includes('"2026-03-02T')) ?? []
      // Nothing comes into the database for it, and nothing is written again for a day that has not changed.
      expect(await fills(copy.database)).toHaveLength(2)
      expect((await archiveAll(copy.database, archive.target, later)).written).toEqual([])
      await restoreArchive(whole.database, archive.target, { tables: ['fills'], to: '2026-03-03' })
      const before = await fills(source.database)
      const restored = await fills(whole.database)
      expect(restored).toHaveLength(before.length + 1)
      expect(before.filter((row) => !restored.includes(row))).toHaveLength(1)
      expect(restored).toEqual(expect.arrayContaining(await fills(copy.database)))
      const covered = async (database: typeof copy.database) =>
        (await everything(database))['recorder.ledger']?.filter(
          (row) => row.includes('"fills"') && row.includes('"recorded"'),
        ) ?? []
      expect((await covered(whole.database)).some((row) => row.includes('NEWUSDT'))).toBe(true)
      expect((await covered(whole.database)).length).toBeGreaterThan(1)
    } finally {
      await copy.drop()
      await whole.drop()
    }
  })

  test('is written by one at a time', async () => {
    const { db } = source.database
    await withArchiveLock(db, async () => {
      await expect(archiveAll(source.database, archive.target, later)).rejects.toThrow('another archiver')
    })
    expect((await archiveAll(source.database, archive.target, later)).written).toEqual([])
  })
})

describe('its files', () => {
  test('are read by DuckDB through the manifests, with decimals that multiply', async () => {
    const [query = ''] = /```sql\n([^]*?)```/.exec(readRepositoryFile('docs/archive.md'))?.slice(1) ?? []
    const instance = await DuckDBInstance.create(':memory:')
    const connection = await instance.connect()
    try {
      const [variable = '', select = ''] = query
        .replaceAll('/srv/market-archive', archive.folder)
        .replace('2026-03-01', '2026-03-02')
        .split(/(?<=\);\n)(?=select)/)
      await connection.run(variable)
      const found = (await connection.runAndReadAll(select)).getRowsJson()
      const { rows } = await sql<{ symbol: string; turnover: string }>`
        select symbol, trim_scale(sum(price * size))::text as turnover from market.fills
        where category = 'SPOT' and ts >= '2026-03-02Z' and ts < '2026-03-03Z' group by 1`.execute(source.database.db)
      expect(rows.length).toBeGreaterThan(0)
      const trimmed = found.map(([symbol, turnover]) => ({
        symbol,
        turnover: (turnover as string).replace(/\.?0+$/, ''),
      }))
      expect(trimmed).toEqual(rows)
    } finally {
      connection.closeSync()
      instance.closeSync()
    }
  })
})

describe('verify', () => {
  test('has a day archived anew to which rows came without proof', async () => {
    const { db } = source.database
    const change = (by: number) =>
      sql`update market.tickers set last_price = last_price + ${by}
        where ts = (select min(ts) from market.tickers)`.execute(db)
    await change(1)
    expect((await archiveAll(source.database, archive.target, later)).written).toEqual([])
    expect((await verified()).problems).toEqual([
      expect.stringMatching(/the next market-recorder archive writes the day anew$/),
    ])
    const { written: anew } = await archiveAll(source.database, archive.target, later)
    expect(anew).toMatchObject([{ table: 'tickers', day: '2026-03-02', version: 2 }])
    expect((await verified()).problems).toEqual([])
    await change(-1)
  })

  test('finds a damaged file, a missing one, one that belongs to nothing, and rows that differ', async () => {
    const all = (await readdir(archive.folder, { recursive: true })).filter((path) => path.endsWith('.parquet'))
    const [first = '', second = ''] = all.filter((path) => path.includes('table=candles'))
    const bytes = await readFile(join(archive.folder, first))
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1
    await writeFile(join(archive.folder, first), bytes)
    await archive.target.remove(second)
    await writeFile(join(archive.folder, 'table=fills/day=2026-03-02/category=SPOT/stray.parquet'), 'PAR1')
    await sql`update market.tickers set last_price = last_price + 1 where ts = (select min(ts) from market.tickers)`.execute(
      source.database.db,
    )
    const { problems } = await verified()
    await sql`update market.tickers set last_price = last_price - 1 where ts = (select min(ts) from market.tickers)`.execute(
      source.database.db,
    )
    expect(problems).toHaveLength(3)
    expect(problems.join('\n')).toMatch(/candles-v1-0\.parquet is missing/)
    expect(problems.join('\n')).toMatch(/candles-v1-0\.parquet is not what was written/)
    expect(problems.join('\n')).toMatch(/stray\.parquet belongs to no manifest/)
    expect(problems.join('\n')).toMatch(/not as in the database: [A-Z-]+: as many rows, but not the same/)
  })
})

test('the command writes, verifies, certifies, restores and prunes, and says what it did', async () => {
  const config = join(archive.folder, '.recorder.yaml')
  await writeFile(config, `archive: { folder: '${archive.folder}', tables: [fills, candles] }\n`)
  const run = async (...args: string[]) => {
    const { exitCode, stdout, stderr } = await runProgram(['archive', ...args, '--config', config], {
      DATABASE_URL: source.url,
    })
    // Lines of progress are left out, because their number depends on the time that it takes.
    return { exitCode, said: stdout + stderr.replaceAll(/^\w+ of [\d-]+, \d+ rows\n/gm, '') }
  }
  expect(await run()).toEqual({
    exitCode: 0,
    said: `0 days of tables written to ${archive.folder}: a day is due 24 hours after its end, or when it has changed\n`,
  })
  const checked = await run('verify', '--table', 'fills')
  expect(checked.said).toMatch(/^\d+ day of tables read, \d+ rows, \d+ compared with the database: ok\n$/)
  const range = ['--from', '2026-03-02', '--to', '2026-03-03']
  const certificate = await run('certify', '--table', 'candles', '--symbol', 'RARE*', ...range)
  expect(certificate.said).toContain('| SPOT RAREUSDT market 1H | 20.83 % | 1 | 1 | 0 |')
  expect(certificate.said).toContain('Gap 2026-03-02T20:00:00Z to 2026-03-03T02:00:00Z, open: the service was away')
  const one = await run('certify', '--table', 'fills', '--symbol', 'BTCUSDT', '--category', 'SPOT', ...range)
  const { rows: counted } = await sql<{ n: number }>`
    select count(*)::integer as n from market.fills
    where category = 'SPOT' and symbol = 'BTCUSDT' and ts >= '2026-03-02Z' and ts < '2026-03-03Z'`.execute(
    source.database.db,
  )
  expect(one.said).toContain(`\n${counted[0]?.n} rows in 1 day.\n`)
  expect(one.said).toContain(`| 2026-03-02 | SPOT | ${counted[0]?.n} | `)
  expect(one.said).not.toContain('FUTURES')
  expect(await run('certify', '--table', 'fills', '--symbol', 'NOSUCH', ...range)).toEqual({
    exitCode: 1,
    said: 'error: the archive has nothing of what is to be certified\n',
  })
  const listed = await run('certify', '--table', 'tickers', '--symbol', 'BTC*', ...range)
  expect(listed.said).toContain('| SPOT * | not claimed | 1 | 0 | 0 |')
  expect(listed.said).toContain('open: the spool was full')
  expect(listed.said).not.toContain('Incomplete')
  expect(await run('restore', '--table', 'fills', '--from', '2020-01-01', '--to', '2020-01-02')).toEqual({
    exitCode: 1,
    said: `error: the archive in ${archive.folder} has none of these days of fills\n`,
  })
  const restored = await run('restore', '--table', 'fills', ...range)
  expect(restored.said).toMatch(/fills of 2026-03-02: \d+ rows, 0 of them new\n/)
  expect((await run('prune', '--dry-run')).said).toBe('would remove 0 former versions, 0 files of 0 bytes\n')
  expect((await run('certify', '--table', 'candles')).exitCode).toBe(2)
  await archive.target.remove('table=candles/day=2026-03-02/category=SPOT/candles-v1-0.parquet')
  const refused = await run('certify', '--table', 'candles', ...range)
  expect(refused).toEqual({
    exitCode: 1,
    said: 'error: table=candles/day=2026-03-02/category=SPOT/candles-v1-0.parquet is missing\n',
  })
  const lost = await run('restore', '--table', 'candles', ...range)
  expect(lost).toMatchObject({
    exitCode: 1,
    said: expect.stringMatching(/is missing; nothing of candles of 2026-03-02 was restored: bring it back/) as string,
  })
  expect(lost.said).not.toContain('ENOENT')
  const found = await run('verify', '--table', 'candles')
  expect(found.said).toMatch(/is missing; the next market-recorder archive writes the day anew\n/)
  expect((await run()).said).toMatch(/candles of 2026-03-02: \d+ rows, \d+ bytes in \d files, version 2\n/)
  expect((await run('verify', '--table', 'candles')).said).toMatch(
    /is missing; archive prune removes this former version\n/,
  )
  expect((await run('prune')).said).toMatch(/^removed 1 former version, /)
  expect((await run('verify', '--table', 'candles', '--offline')).said).toMatch(
    /^the database was not asked which days it has archived\n.*: ok\n$/,
  )
})
