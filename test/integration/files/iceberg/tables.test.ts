import { cp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { pruneArchive, verifyArchive } from '../../../../src/files/archive/verify.js'
import type { ArchiveTarget } from '../../../../src/files/layout/target.js'
import { readAvro } from '../../../../src/files/iceberg/manifests.js'
import { neededFiles, readPointers } from '../../../../src/files/iceberg/catalog.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { marketTables } from '../../../../src/market/stream.js'
import { archiveAll, rowsOf, temporaryArchive } from '../../../support/archives.js'
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
/** The archive of the market before any test has changed it. */
let kept: Awaited<ReturnType<typeof temporaryArchive>>
beforeAll(async () => {
  source = await createTestDatabase()
  const { db } = source.database
  await loadCookbookMarket(db, 15)
  await insertFutures(db, from)
  archive = await temporaryArchive()
  target = archive.target
  await publish()
  kept = await temporaryArchive()
  await cp(archive.folder, kept.folder, { recursive: true })
  await sql`create table recorder.noted_day as table recorder.archived_day`.execute(db)
  await sql`create table recorder.noted_table as table iceberg.iceberg_tables`.execute(db)
})
afterAll(async () => {
  await archive.drop()
  await kept.drop()
  await source.drop()
})
beforeEach(async () => {
  const { db } = source.database
  await sql`delete from market.fills where exec_id like 'iceberg-%'`.execute(db)
  await sql`delete from market.candles where symbol = 'RAREUSDT'`.execute(db)
  await sql`truncate recorder.archived_day, recorder.changed_day, iceberg.iceberg_tables`.execute(db)
  await archive.drop()
})

/** Puts the archive there that `publish` has written before the tests. */
async function published(): Promise<void> {
  const { db } = source.database
  await cp(kept.folder, archive.folder, { recursive: true })
  await sql`insert into recorder.archived_day table recorder.noted_day`.execute(db)
  await sql`insert into iceberg.iceberg_tables table recorder.noted_table`.execute(db)
}

/** Archives two tables of market data, with what is archived beside each. Most of what is told of them holds for all others. */
const publish = (now = later, place = target, tables: readonly string[] = ['candles', 'fills']) =>
  archiveAll(source.database, place, now, { tables })

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

/** Files that the database has noted of a table. */
async function archivedFiles(table: string): Promise<string[]> {
  const { rows } = await sql<{ path: string }>`
    select f ->> 'path' as path from recorder.archived_day cross join lateral jsonb_array_elements(files) as f
    where f ->> 'table' = ${table} order by 1`.execute(source.database.db)
  return rows.map(({ path }) => path).toSorted()
}

async function problems(tables: readonly string[] = ['candles', 'fills']): Promise<string[]> {
  const found: string[] = []
  const options = { database: source.database, pointers: await readPointers(source.database.db), tables }
  for await (const day of verifyArchive(target, options)) found.push(...day.problems)
  return found
}

const prune = async () => pruneArchive(target, await readPointers(source.database.db))

const fill = (n: number, price = '2') =>
  aFill({ category: 'SPOT', symbol: 'BTCUSDT', ts: from + n, execId: `iceberg-${n}`, price })

const pyiceberg = engine('pyiceberg')

describe('the tables of an archive', () => {
  test.skipIf(pyiceberg.python === null)(`are what PyIceberg reads${pyiceberg.hint}`, async () => {
    await publish(later, target, marketTables)
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

  test('have what the database has noted, and a second run changes nothing', async () => {
    const publishAll = () => publish(later, target, marketTables)
    expect((await publishAll()).problems).toEqual([])
    const before = await pointers()
    expect(Object.keys(before)).toEqual(expect.arrayContaining([...marketTables, 'coverage', 'gaps']))
    expect(await filesOf('fills')).toEqual([await archivedFiles('fills')])
    expect(await filesOf('candles')).toEqual([await archivedFiles('candles')])
    expect(await readFile(join(archive.folder, 'market/fills/metadata/version-hint.text'), 'utf8')).toBe('1')
    await publishAll()
    expect(await pointers()).toEqual(before)
    expect(await problems(marketTables)).toEqual([])
  })

  test('are written without another look at months that have not changed', async () => {
    await published()
    const { db } = source.database
    await insertFills(db, [fill(31 * dayMs)])
    const read: string[] = []
    const watched: ArchiveTarget = {
      ...target,
      read: (path) => {
        read.push(path)
        return target.read(path)
      },
    }
    await publish(later + 31 * dayMs, watched)
    expect(read.filter((path) => /fills\/metadata\/.*json$/.test(path))).not.toEqual([])
    expect(read.filter((path) => /fills\/metadata\/2026-03.*avro$/.test(path))).toEqual([])
    expect(await problems()).toEqual([])
  })

  test('show a correction as a snapshot, and what was there before in the one before', async () => {
    await published()
    const first = await archivedFiles('fills')
    await insertFills(source.database.db, [fill(1)])
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
    await publish(later + 40 * dayMs)
    await prune()
    expect(await filesOf('fills')).toEqual([second, await archivedFiles('fills')])
    const [gone = ''] = first.filter((path) => !second.includes(path))
    await expect(readFile(join(archive.folder, gone))).rejects.toThrow('ENOENT')
    expect(await problems()).toEqual([])
  })

  test('are whole after a kill between files and pointer, and nothing of it stays', async () => {
    for (const last of ['market/candles/metadata/v1.metadata.json', 'market/fills/metadata/v2.metadata.json']) {
      const create = async (path: string, text: string) => {
        const isCreated = await target.create(path, text)
        if (path === last) throw new Error('killed')
        return isCreated
      }
      await expect(publish(later, { ...target, create })).rejects.toThrow('killed')
      expect((await pointers())['fills']).toBeUndefined()
    }
    expect((await publish()).problems).toEqual([])
    expect((await pointers())['fills']).toMatch(/v3\.metadata\.json$/)
    expect((await filesOf('fills')).at(-1)).toEqual(await archivedFiles('fills'))
    expect((await prune()).files).toBeGreaterThan(0)
    const needed = await neededFiles(target, await readPointers(source.database.db))
    expect((await target.list('market/')).map(({ path }) => path)).toEqual([...needed].toSorted())
    expect(await problems()).toEqual([])
  })

  test('tell readers by path of a snapshot whose writer was killed before it could', async () => {
    await published()
    await insertFills(source.database.db, [fill(6)])
    const kill = (_: string, path: string) => {
      if (path.endsWith('version-hint.text')) return Promise.reject(new Error('killed'))
      return target.publish(_, path)
    }
    await expect(publish(later, { ...target, publish: kill })).rejects.toThrow('killed')
    await publish()
    const hint = await readFile(join(archive.folder, 'market/fills/metadata/version-hint.text'), 'utf8')
    expect((await pointers())['fills']).toMatch(new RegExp(`/v${hint}\\.metadata\\.json$`))
    expect(await problems()).toEqual([])
  })

  test('are moved by one of two who write at the same moment', async () => {
    await published()
    await insertFills(source.database.db, [fill(3)])
    const { db } = source.database
    // The lock of the second one was lost, so that both work. Another one moves the pointer under the first.
    const create = async (path: string, text: string) => {
      const isCreated = await target.create(path, text)
      if (path.startsWith('market/fills/')) {
        await sql`update iceberg.iceberg_tables set metadata_location = 'elsewhere' where table_name = 'fills'`.execute(
          db,
        )
      }
      return isCreated
    }
    await expect(publish(later, { ...target, create })).rejects.toThrow('somebody else has just written fills')
  })

  test('have restatements beside the candles, whole, on the day on which they were noticed', async () => {
    await published()
    const before = await filesOf('candles')
    await sql`
      insert into recorder.restatement
        (category, symbol, type, interval, from_time, to_time, numerator, denominator, candles, detected_at)
      values ('SPOT', 'BTCUSDT', 'market', '1m', ${new Date(from)}, ${new Date(from + 1.5 * dayMs)}, 1, 2, 2160,
        ${new Date(from + 2.5 * dayMs)})`.execute(source.database.db)
    await sql`delete from recorder.archived_day where table_name = 'candles' and day > '2026-03-03'`.execute(
      source.database.db,
    )
    onTestFinished(async () => void (await sql`truncate recorder.restatement cascade`.execute(source.database.db)))
    expect((await publish(later + dayMs)).problems).toEqual([])
    expect(await rowsOf(target, 'restatements')).toEqual([
      {
        category: 'SPOT',
        symbol: 'BTCUSDT',
        stream: 'candles',
        type: 'market',
        interval: '1m',
        from_time: String(from * 1000),
        to_time: String((from + 1.5 * dayMs) * 1000),
        numerator: '1',
        denominator: '2',
        candles: '2160',
        detected_at: String((from + 2.5 * dayMs) * 1000),
      },
    ])
    expect((await filesOf('candles')).at(-1)).toEqual(before.at(-1))
  })

  test('have their snapshots in order when the clock goes back', async () => {
    await publish(later + dayMs)
    await insertFills(source.database.db, [fill(4)])
    await publish(later)
    const { snapshots } = await metadataOf('fills')
    const [first = 0, second = 0] = snapshots.map((one) => one['timestamp-ms'])
    expect(second).toBe(first + 1)
  })

  test('show a value with more digits than there was room for, and all values before it', async () => {
    await published()
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
    expect((await publish(later + dayMs)).problems).toEqual([])
    const [before, now] = await typesOf('fills', 'price')
    expect(before).toEqual(typeBefore)
    expect(now).toMatchObject({ name: 'price', type: 'decimal(38, 12)' })
    expect(now?.id).not.toBe(before?.id)
    const closes = await typesOf('candles', 'close')
    expect(closes.at(-1)).toMatchObject({ type: 'decimal(38, 14)' })
    expect((await filesOf('candles')).at(-1)).toEqual(await archivedFiles('candles'))
    expect((await filesOf('fills')).at(-1)).toEqual(await archivedFiles('fills'))
    expect(await problems()).toEqual([])
  })

  test('differ from what was noted when somebody else has written them', async () => {
    await published()
    const snapshot = (await metadataOf('fills')).snapshots.at(-1)
    const candles = (await metadataOf('candles')).snapshots.at(-1)
    const [from, to] = [candles, snapshot].map((one) => one?.['manifest-list'].replace('file://', '') ?? '')
    await cp(from ?? '', to ?? '')
    expect((await problems()).join()).toContain('its tables show other files than this database has noted')
  })

  test('stop the runs of a database that does not know their newest snapshot', async () => {
    await published()
    await sql`
      update iceberg.iceberg_tables set metadata_location = replace(metadata_location, 'v1.', 'v0.')
      where table_name = 'fills'`.execute(source.database.db)
    await expect(publish()).rejects.toThrow(/knows more than this database: archive adopt makes final/)
  })
})

/** A column in each schema that a table had. */
async function typesOf(table: string, column: string) {
  const { schemas } = await metadataOf(table)
  return schemas.map(({ fields }) => fields.find(({ name }) => name === column))
}
