import { cp, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { runArchive } from '../../../../src/files/archive/run.js'
import { listDays, listNewest, readManifest } from '../../../../src/files/archive/manifest.js'
import { pruneArchive } from '../../../../src/files/archive/verify.js'
import type { ArchiveTarget } from '../../../../src/files/archive/target.js'
import { readAvro } from '../../../../src/files/iceberg/manifests.js'
import { neededFiles, verifyTables } from '../../../../src/files/iceberg/current.js'
import { publishTables } from '../../../../src/files/iceberg/publish.js'
import { openParquet } from '../../../../src/files/parquet/file.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { marketTables } from '../../../../src/market/stream.js'
import { archiveAll, temporaryArchive } from '../../../support/archives.js'
import { insertFutures } from '../../../support/insertFutures.js'
import { loadCookbookMarket } from '../../../support/cookbookMarket.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { engine, runEngine } from '../../../support/engines.js'
import { insertFills } from '../../../support/insertFills.js'
import { aCandle, aFill } from '../../../support/marketRows.js'

const dayMs = 86_400_000
const from = Date.UTC(2026, 2, 2)
const later = from + 4 * dayMs

let source: TestDatabase
let archive: Awaited<ReturnType<typeof temporaryArchive>>
let target: ArchiveTarget
beforeAll(async () => {
  source = await createTestDatabase()
  await loadCookbookMarket(source.database.db)
  await insertFutures(source.database.db, from)
})
afterAll(() => source.drop())
beforeEach(async () => {
  const { db } = source.database
  await sql`truncate recorder.archived_day, iceberg.iceberg_tables`.execute(db)
  archive = await temporaryArchive()
  target = archive.target
  return () => archive.drop()
})

/** Archives what has ended by `now` and publishes it. */
async function publish(now = later, place: ArchiveTarget = target) {
  const { db } = source.database
  const options = { now: () => now, recorder: '0.0.0-test' }
  try {
    return await runArchive(
      source.database,
      place,
      { tables: marketTables, afterHours: 1 },
      {
        ...options,
        publish: (folder) => publishTables({ folder, ...options, db, target: place, snapshotDays: 30 }),
      },
    )
  } finally {
    await place.close()
  }
}

async function pointers(): Promise<Record<string, string>> {
  const rows = await source.database.db
    .selectFrom('iceberg.iceberg_tables')
    .select(['table_name', 'metadata_location'])
    .execute()
  return Object.fromEntries(rows.map((row) => [row.table_name, row.metadata_location ?? '']))
}

interface Metadata {
  readonly schemas: readonly {
    readonly fields: readonly { readonly id: number; readonly name: string; readonly type: unknown }[]
  }[]
  readonly snapshots: readonly {
    readonly 'manifest-list': string
    readonly 'timestamp-ms': number
    readonly summary: object
  }[]
}

async function metadataOf(table: string): Promise<Metadata> {
  const url = (await pointers())[table] ?? ''
  return JSON.parse(await readFile(url.replace('file://', ''), 'utf8')) as Metadata
}

/** Files of each snapshot of a table, read as the specification has it. */
async function filesOf(table: string): Promise<string[][]> {
  const read = async <Entry>(url: string) => readAvro<Entry>(await readFile(url.replace('file://', '')))
  const { snapshots } = await metadataOf(table)
  return Promise.all(
    snapshots.map(async (snapshot) => {
      const manifests = await read<{ manifest_path: string }>(snapshot['manifest-list'])
      const entries = await Promise.all(
        manifests.map((one) => read<{ status: number; data_file: { file_path: string } }>(one.manifest_path)),
      )
      const live = entries.flat().filter(({ status }) => status !== 2)
      return live.map(({ data_file: file }) => file.file_path.replace(`file://${archive.folder}/`, '')).toSorted()
    }),
  )
}

/** Files that the newest manifests of a table name. */
async function archivedFiles(table: string): Promise<string[]> {
  const newest = await listNewest(target, table)
  const manifests = await Promise.all(newest.map((place) => readManifest(target, place)))
  return manifests.flatMap(({ files }) => files.map(({ path }) => path)).toSorted()
}

async function problems(): Promise<string[]> {
  const found: string[] = []
  for await (const { table, problem } of verifyTables(source.database.db, target)) found.push(`${table}: ${problem}`)
  return found
}

async function prune() {
  return pruneArchive(target, { needed: await neededFiles(source.database.db, target) })
}

const fill = (n: number, price = '2') =>
  aFill({ category: 'SPOT', symbol: 'BTCUSDT', ts: from + n, execId: `iceberg-${n}`, price })

const pyiceberg = engine('pyiceberg')

describe('the tables of an archive', () => {
  test.skipIf(pyiceberg.python === null)(`are what PyIceberg reads${pyiceberg.hint}`, async () => {
    await publish()
    const read = await runEngine(pyiceberg, 'pyicebergTables.py', { url: source.url })
    const counted = await Promise.all(
      marketTables.map(async (name) => {
        const { rows } = await sql<{
          n: number
        }>`select count(*)::int as n from ${sql.table(`market.${name}`)}`.execute(source.database.db)
        return [name, [expect.objectContaining({ rows: rows[0]?.n })]] as const
      }),
    )
    expect(read).toMatchObject(Object.fromEntries(counted))
  })

  test('have what the newest manifests name, and a second run changes nothing', async () => {
    expect((await publish()).problems).toEqual([])
    const before = await pointers()
    expect(Object.keys(before).toSorted()).toEqual(
      [...marketTables, 'coverage', 'no_trade', 'gaps', 'candle_revisions', 'restatements'].toSorted(),
    )
    expect(await filesOf('fills')).toEqual([await archivedFiles('fills')])
    expect(await filesOf('candles')).toEqual([await archivedFiles('candles')])
    expect(await readFile(join(archive.folder, 'iceberg/fills/metadata/version-hint.text'), 'utf8')).toBe('1')
    await publish()
    expect(await pointers()).toEqual(before)
    expect(await problems()).toEqual([])
  })

  test('are published without another look at months that have not changed', async () => {
    await publish()
    const { db } = source.database
    await insertFills(db, [fill(31 * dayMs)])
    onTestFinished(async () => {
      await sql`delete from market.fills where ts >= ${new Date(from + 31 * dayMs)}`.execute(db)
    })
    await archiveAll(source.database, target, later + 31 * dayMs)
    const read: string[] = []
    const watched: ArchiveTarget = {
      ...target,
      read: (path) => {
        read.push(path)
        return target.read(path)
      },
    }
    const files = { folder: await target.stagingFolder() }
    await publishTables({ ...files, db, target: watched, now: () => later, snapshotDays: 30 })
    expect(read.filter((path) => path.startsWith('manifests/table=fills/day=2026-04'))).not.toEqual([])
    expect(read.filter((path) => /^manifests\/.*\/day=2026-03/.test(path))).toEqual([])
    expect(await problems()).toEqual([])
  })

  test('show a correction as a snapshot, and what was there before in the one before', async () => {
    await publish()
    const first = await archivedFiles('fills')
    await insertFills(source.database.db, [fill(1)])
    await sql`update recorder.archived_day set proof_digest = ''`.execute(source.database.db)
    await publish(later + dayMs)
    const second = await archivedFiles('fills')
    expect(second).not.toEqual(first)
    expect(await filesOf('fills')).toEqual([first, second])
    expect((await metadataOf('fills')).snapshots.map(({ summary }) => summary)).toMatchObject([
      { operation: 'append' },
      { operation: 'overwrite' },
    ])
    await prune()
    expect(await filesOf('fills')).toEqual([first, second])
    for (const path of first) expect((await readFile(join(archive.folder, path))).length).toBeGreaterThan(0)

    // A month later nobody holds the first snapshot any more.
    await insertFills(source.database.db, [fill(2)])
    await sql`update recorder.archived_day set proof_digest = ''`.execute(source.database.db)
    await publish(later + 40 * dayMs)
    await prune()
    expect(await filesOf('fills')).toEqual([second, await archivedFiles('fills')])
    await expect(readFile(join(archive.folder, first[0] ?? ''))).rejects.toThrow('ENOENT')
    expect(await problems()).toEqual([])
  })

  test('are whole after a kill between files and pointer, and nothing of it stays', async () => {
    for (const last of ['manifests/table=candles/', 'iceberg/fills/metadata/v1.metadata.json']) {
      const create = async (path: string, text: string) => {
        const isCreated = await target.create(path, text)
        if (path.startsWith(last)) throw new Error('killed')
        return isCreated
      }
      await expect(publish(later, { ...target, create })).rejects.toThrow('killed')
      expect(await pointers()).toEqual({})
    }
    // All days are archived and noted by now, so the next run only publishes them. Candles have no rows on the last day.
    const { due, ...result } = await publish()
    const again = due.filter(({ table, day }) => table === 'candles' && day < '2026-03-04')
    expect([result, again]).toEqual([{ written: [], problems: [] }, []])
    expect((await pointers())['fills']).toMatch(/v2\.metadata\.json$/)
    expect(await filesOf('fills')).toEqual([await archivedFiles('fills')])
    await prune()
    const needed = await neededFiles(source.database.db, target)
    expect((await target.list('iceberg/')).map(({ path }) => path)).toEqual(
      [...(needed ?? [])].filter((path) => path.startsWith('iceberg/')).toSorted(),
    )
    expect(await problems()).toEqual([])
  })

  test('are moved by one of two who publish at the same moment', async () => {
    await publish()
    await insertFills(source.database.db, [fill(3)])
    const { db } = source.database
    await sql`update recorder.archived_day set proof_digest = ''`.execute(db)
    await archiveAll(source.database, target, later)
    const files = { folder: await target.stagingFolder() }
    // Neither goes on before both have read the pointers.
    let goOn = () => {}
    const bothCame = new Promise<void>((resolve) => (goOn = resolve))
    let came = 0
    const create = async (path: string, text: string) => {
      if (++came === 2) goOn()
      await bothCame
      return target.create(path, text)
    }
    const context = { ...files, db, target: { ...target, create }, now: () => later, snapshotDays: 30 }
    const both = await Promise.allSettled([publishTables(context), publishTables(context)])
    expect(both.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    expect(both.find((one) => one.status === 'rejected')?.reason).toMatchObject({
      message: expect.stringContaining('somebody else has just published') as string,
    })
    expect((await filesOf('fills')).at(-1)).toEqual(await archivedFiles('fills'))
    expect(await problems()).toEqual([])
  })

  test('have restatements beside the candles, cut at midnight', async () => {
    await sql`
      insert into recorder.restatement
        (category, symbol, type, interval, from_time, to_time, numerator, denominator, candles, detected_at)
      values ('SPOT', 'BTCUSDT', 'market', '1m', ${new Date(from)}, ${new Date(from + 1.5 * dayMs)}, 1, 2, 2160,
        ${new Date(from + 3 * dayMs)})`.execute(source.database.db)
    onTestFinished(async () => void (await sql`truncate recorder.restatement cascade`.execute(source.database.db)))
    expect((await publish()).problems).toEqual([])
    const [files = []] = await filesOf('restatements')
    const rows: unknown[][] = []
    for (const path of files) {
      const file = await openParquet(join(archive.folder, path))
      for await (const batch of file.batches()) for (const row of batch) rows.push([...row])
    }
    const series = ['SPOT', 'BTCUSDT', 'candles', 'market', '1m']
    const [begin, midnight, end, detectedAt] = [0, 1, 1.5, 3].map((days) => BigInt(from + days * dayMs) * 1000n)
    const rest: unknown[] = [expect.anything(), expect.anything(), 2160n, detectedAt]
    expect(rows).toEqual([
      [...series, begin, midnight, ...rest],
      [...series, midnight, end, ...rest],
    ])
  })

  test('have their snapshots in order when the clock goes back', async () => {
    await publish(later + dayMs)
    await insertFills(source.database.db, [fill(4)])
    await sql`update recorder.archived_day set proof_digest = ''`.execute(source.database.db)
    await publish(later)
    const { snapshots } = await metadataOf('fills')
    const [first = 0, second = 0] = snapshots.map((one) => one['timestamp-ms'])
    expect(second).toBe(first + 1)
  })

  test('show a value with more digits than there was room for, and all values before it', async () => {
    await publish()
    const [typeBefore] = await typesOf('fills', 'price')
    // One of the two days with candles gets such a value. The other one then has to be written again.
    await insertFills(source.database.db, [fill(5, '2.1234567891')])
    await upsertCandles(source.database.db, [
      aCandle({
        category: 'SPOT',
        symbol: 'RAREUSDT',
        type: 'market',
        interval: '1H',
        openTime: from,
        close: '0.123456789123',
      }),
    ])
    await sql`update recorder.archived_day set proof_digest = ''`.execute(source.database.db)
    expect((await publish(later + dayMs)).problems).toEqual([])
    const [before, now] = await typesOf('fills', 'price')
    expect(before).toEqual(typeBefore)
    expect(now).toMatchObject({ name: 'price', type: 'decimal(38, 12)' })
    expect(now?.id).not.toBe(before?.id)
    const closes = await typesOf('candles', 'close')
    expect(closes.at(-1)).toMatchObject({ type: 'decimal(38, 14)' })
    const days = [...(await listDays(target, 'candles'))]
    expect(days.map(([, versions]) => versions.at(-1))).toEqual([2, 2])
    expect((await filesOf('candles')).at(-1)).toEqual(await archivedFiles('candles'))
    expect((await filesOf('fills')).at(-1)).toEqual(await archivedFiles('fills'))
    expect(await problems()).toEqual([])
  })

  test('are made anew from the manifests when their metadata are lost', async () => {
    await publish()
    const lost = (await pointers())['candles'] ?? ''
    await rm(lost.replace('file://', ''))
    expect(await problems()).toEqual([
      `candles: ${lost} is missing; market-recorder archive rebuild-tables makes it anew`,
    ])
    expect((await publish()).problems).toEqual([
      `the table candles was not published: ${lost} is missing; market-recorder archive rebuild-tables makes it anew`,
    ])
    const { db } = source.database
    const files = { folder: await target.stagingFolder() }
    await publishTables({ ...files, db, target, now: () => later, snapshotDays: 30 }, { isAnew: true })
    expect(await problems()).toEqual([])
    expect((await filesOf('candles')).at(-1)).toEqual(await archivedFiles('candles'))
    await prune()
    expect(await problems()).toEqual([])
  })

  test('differ from the manifests when somebody else has written them', async () => {
    await publish()
    const snapshot = (await metadataOf('fills')).snapshots.at(-1)
    const candles = (await metadataOf('candles')).snapshots.at(-1)
    const [from, to] = [candles, snapshot].map((one) => one?.['manifest-list'].replace('file://', '') ?? '')
    await cp(from ?? '', to ?? '')
    expect(await problems()).toEqual([expect.stringContaining('fills: the table shows something else than')])
  })
})

/** A column in each schema that a table had. */
async function typesOf(table: string, column: string) {
  const { schemas } = await metadataOf(table)
  return schemas.map(({ fields }) => fields.find(({ name }) => name === column))
}
