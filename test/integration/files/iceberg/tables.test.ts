import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { runArchive } from '../../../../src/files/archive/run.js'
import { listTableDays, readManifest } from '../../../../src/files/archive/manifest.js'
import { pruneArchive } from '../../../../src/files/archive/prune.js'
import type { ArchiveTarget } from '../../../../src/files/archive/target.js'
import { readAvro } from '../../../../src/files/iceberg/avro.js'
import { neededFiles, verifyTables } from '../../../../src/files/iceberg/check.js'
import { publishTables } from '../../../../src/files/iceberg/publish.js'
import { marketTables } from '../../../../src/market/stream.js'
import { temporaryArchive } from '../../../support/archives.js'
import { loadCookbookMarket } from '../../../support/cookbookMarket.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { engine, runEngine } from '../../../support/engines.js'
import { insertFills } from '../../../support/insertFills.js'
import { aFill } from '../../../support/marketRows.js'

const dayMs = 86_400_000
const from = Date.UTC(2026, 2, 2)
const later = from + 4 * dayMs

let source: TestDatabase
let archive: Awaited<ReturnType<typeof temporaryArchive>>
let target: ArchiveTarget
beforeAll(async () => {
  source = await createTestDatabase()
  await loadCookbookMarket(source.database.db)
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
        publish: (files, noted) => publishTables({ ...files, ...options, db, target: place, snapshotDays: 30 }, noted),
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
  const days = [...(await listTableDays(target, table))]
  const manifests = await Promise.all(
    days.map(([day, versions]) => readManifest(target, table, day, versions.at(-1) ?? 0)),
  )
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
    const read = await runEngine(pyiceberg, 'pyicebergTables.py', [source.url])
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
      [...marketTables, 'coverage', 'no_trade', 'gaps', 'candle_revisions'].toSorted(),
    )
    expect(await filesOf('fills')).toEqual([await archivedFiles('fills')])
    expect(await filesOf('candles')).toEqual([await archivedFiles('candles')])
    expect(await readFile(join(archive.folder, 'iceberg/fills/metadata/version-hint.text'), 'utf8')).toBe('1')
    await publish()
    expect(await pointers()).toEqual(before)
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
})
