import { copyFile, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { fileRows, PartitionWriter } from '../../../../src/files/archive/file.js'
import { removeArchived } from '../../../../src/files/archive/removal.js'
import { withSnapshot, tableColumns } from '../../../../src/files/archive/rows.js'
import { pruneArchive, verifyArchive } from '../../../../src/files/archive/verify.js'
import { columnsOfTables, isSameType } from '../../../../src/files/archive/dayWriter.js'
import { readPointers, versionOf } from '../../../../src/files/iceberg/catalog.js'
import { serverRow, type StoredColumn } from '../../../../src/files/layout/rowText.js'
import { archivedTable } from '../../../../src/files/layout/tables.js'
import { type ArchiveTarget, DamagedArchive } from '../../../../src/files/layout/target.js'
import { archiveAll, filesOf, hintsOf, rowsOf, temporaryArchive } from '../../../support/archives.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { insertFills } from '../../../support/insertFills.js'
import { aFill } from '../../../support/marketRows.js'

const dayMs = 86_400_000
const from = Date.UTC(2026, 2, 1)
const now = from + 4 * dayMs

let created: TestDatabase
let archive: Awaited<ReturnType<typeof temporaryArchive>>
beforeEach(async () => {
  created = await createTestDatabase()
  archive = await temporaryArchive()
  const fills = Array.from({ length: 30 }, (_, i) => aFill({ ts: from + (i * dayMs) / 10, execId: `${i}` }))
  await insertFills(created.database.db, fills)
  await archiveFills()
})
afterEach(async () => {
  await archive.drop()
  await created.drop()
})

const archiveFills = (at = now) => archiveAll(created.database, archive.target, at, { tables: ['fills'] })

async function pathOf(pattern: RegExp): Promise<string> {
  const paths = await readdir(archive.folder, { recursive: true })
  const found = paths.toSorted().findLast((path) => pattern.test(path))
  if (found === undefined) throw new Error(`nothing is like ${String(pattern)}`)
  return join(archive.folder, found)
}
const dataFile = (day: string) => pathOf(new RegExp(`fills/data/day=${day}.*parquet$`))

/** Writes a file of the same number of rows, whose sums are those of its own rows. */
async function forge(): Promise<void> {
  const { database } = created
  const described = await withSnapshot(database, (snapshot) => tableColumns(snapshot, archivedTable('fills')))
  const columns = described.map(({ name, type }) =>
    type === 'numeric' ? { name, type, digits: 38, scale: 4 } : { name, type },
  )
  const [row] = await rowsOf(archive.target, 'fills')
  const writer = new PartitionWriter({
    folder: archive.folder,
    table: 'fills',
    day: '2026-03-01',
    divider: 'SPOT',
    columns,
  })
  const forged = Array.from({ length: 10 }, (_, i) =>
    columns.map(({ name }) => (name === 'price' ? '999' : name === 'exec_id' ? `f${i}` : (row?.[name] ?? null))),
  )
  await writer.write(forged)
  await writer.close()
  await copyFile(writer.files[0]?.localPath ?? '', await dataFile('2026-03-01'))
}

/** Writes the rows of a file again, with other columns and with sums of its own. */
async function rewrite(columnsOf: (columns: readonly StoredColumn[]) => readonly StoredColumn[]): Promise<void> {
  const [file] = await filesOf(archive.target, 'fills')
  if (file === undefined) throw new Error('there are no fills')
  let writer: PartitionWriter | undefined
  for await (const { footer, rows } of fileRows(archive, file)) {
    const columns = columnsOf(footer.columns)
    const place = { folder: archive.folder, table: 'fills', day: footer.day, divider: footer.divider }
    writer ??= new PartitionWriter({ ...place, columns })
    const kept = columns.map(({ name }) => footer.columns.findIndex((column) => column.name === name))
    await writer.write(rows.map(serverRow(footer.columns)).map((row) => kept.map((i) => row[i] ?? null)))
  }
  await writer?.close()
  await copyFile(writer?.files[0]?.localPath ?? '', join(archive.folder, file.path))
}

const change = async (path: string, changed: (bytes: Buffer) => Buffer) =>
  writeFile(path, changed(await readFile(path)))
const damages: Readonly<Record<string, () => Promise<void>>> = {
  'a file is gone': async () => rm(await dataFile('2026-03-01')),
  'a file is empty': async () => truncate(await dataFile('2026-03-01')),
  'the footer of a file is cut off': async () => {
    const path = await dataFile('2026-03-01')
    await truncate(path, (await readFile(path)).length - 7)
  },
  'the footer of a file claims to be larger than the file': async () =>
    change(await dataFile('2026-03-01'), (bytes) => {
      bytes.writeUInt32LE(0x7fff_ffff, bytes.length - 8)
      return bytes
    }),
  'the rows of a file are other bytes': async () =>
    change(await dataFile('2026-03-01'), (bytes) => bytes.fill(0xa5, 8, 200)),
  'a file is that of another day': async () => copyFile(await dataFile('2026-03-02'), await dataFile('2026-03-01')),
  'a file was replaced with its sums': forge,
  'a file has a decimal of another scale': () =>
    rewrite((columns) => columns.map((column) => (column.name === 'price' ? { ...column, scale: 17 } : column))),
  'a file lacks a column': () => rewrite((columns) => columns.filter(({ name }) => name !== 'is_rpi')),
  'metadata are cut off': async () =>
    change(await pathOf(/fills\/metadata\/v\d+\.metadata\.json$/), (bytes) => bytes.subarray(0, 100)),
  'a list of manifests is nonsense': async () => writeFile(await pathOf(/fills\/metadata\/snap-.*avro$/), 'nonsense'),
  'a manifest is cut off': async () =>
    change(await pathOf(/fills\/metadata\/2026-03-.*avro$/), (bytes) => bytes.subarray(0, bytes.length - 40)),
  'metadata have no snapshot': async () =>
    change(await pathOf(/fills\/metadata\/v\d+\.metadata\.json$/), (bytes) =>
      Buffer.from(JSON.stringify({ ...(JSON.parse(bytes.toString()) as object), snapshots: [] })),
    ),
}

const problems = async (isOnline: boolean) => {
  const found: string[] = []
  const pointers = isOnline ? await readPointers(created.database.db) : await hintsOf(archive.target)
  const database = isOnline ? created.database : undefined
  for await (const day of verifyArchive(archive.target, { pointers, database })) found.push(...day.problems)
  return found
}

test.each(Object.keys(damages))('it is noticed that %s, and the rows stay in the database', async (name) => {
  await damages[name]?.()
  const tables = [{ name: 'fills', retentionDays: 1 }]
  const { kept } = await removeArchived(created.database, archive.target, tables, { now: () => now })
  const isMetadata = /metadata|manifest/.test(name)
  expect(kept).toMatchObject([{ table: 'fills', day: '2026-03-01' }])
  const found = await problems(true)
  expect(found.length).toBeGreaterThan(0)
  for (const line of found) expect(line).toMatch(/^[^\n]+$/)
  // Nobody but the database can tell that a file was replaced with its sums.
  if (name !== 'a file was replaced with its sums') expect((await problems(false)).length).toBeGreaterThan(0)
  if (isMetadata) {
    const pointers = await readPointers(created.database.db)
    await expect(pruneArchive(archive.target, pointers)).rejects.toThrow(DamagedArchive)
    return
  }
  expect(found.at(-1)).toMatch(/the next market-recorder archive writes the day anew$/)
  await archiveFills()
  expect(await problems(true)).toEqual([])
  expect(await rowsOf(archive.target, 'fills')).toHaveLength(30)
})

test.each([
  ['a file has a decimal of another scale', 'has price as decimal(38, 17), not as decimal(38, 3)'],
  ['a file lacks a column', 'has no column is_rpi'],
])('a line names the column that readers would not find when %s', async (name, line) => {
  await damages[name]?.()
  expect((await problems(false)).join()).toContain(`parquet ${line}`)
})

test('what the tables show is read once a month, and a damaged month holds up no month before it', async () => {
  const { database } = created
  const april = from + 31 * dayMs
  await insertFills(database.db, [aFill({ ts: april, execId: 'april' })])
  await archiveFills(april + 4 * dayMs)
  await change(await pathOf(/fills\/metadata\/2026-04-.*avro$/), (bytes) => bytes.subarray(0, bytes.length - 40))
  const read: string[] = []
  const target: ArchiveTarget = {
    ...archive.target,
    read: (path) => {
      read.push(path)
      return archive.target.read(path)
    },
  }
  const tables = [{ name: 'fills', retentionDays: 1 }]
  const { kept } = await removeArchived(database, target, tables, { now: () => april + 4 * dayMs })
  expect(kept).toMatchObject([{ day: '2026-04-01', reason: expect.stringMatching(/2026-04.*damaged/) as string }])
  expect(read.filter((path) => /fills\/metadata\/2026-03-.*avro$/.test(path))).toHaveLength(1)
})

test('rows stay as long as the archive does not show their files', async () => {
  const { database } = created
  await insertFills(database.db, [aFill({ ts: from + 5, execId: 'late' })])
  const pointers = await readPointers(database.db)
  await archiveFills()
  const older = pointers.get('fills') ?? ''
  await sql`update iceberg.iceberg_tables set metadata_location = ${older} where table_name = 'fills'`.execute(
    database.db,
  )
  await writeFile(await pathOf(/fills\/metadata\/version-hint.text$/), String(versionOf(older)))
  const tables = [{ name: 'fills', retentionDays: 1 }]
  const { kept } = await removeArchived(database, archive.target, tables, { now: () => now })
  expect(kept).toMatchObject([{ day: '2026-03-01', reason: expect.stringMatching(/show other files/) as string }])
})

test('readers by path are told of rows before these leave, also after a kill', async () => {
  const { database } = created
  const pointers = await readPointers(database.db)
  await insertFills(database.db, [aFill({ ts: from + 5, execId: 'late' })])
  await archiveFills()
  await writeFile(await pathOf(/fills\/metadata\/version-hint.text$/), String(versionOf(pointers.get('fills') ?? '')))
  const tables = [{ name: 'fills', retentionDays: 1 }]
  const { kept } = await removeArchived(database, archive.target, tables, { now: () => now })
  expect(kept).toEqual([])
  expect(await rowsOf(archive.target, 'fills')).toHaveLength(31)
})

test('no day is written with wider decimals while a file is missing, and all files get them when it is back', async () => {
  const { database } = created
  const path = await dataFile('2026-03-01')
  await rename(path, `${path}.away`)
  const wide = [1.5, 2.5].map((day) =>
    aFill({ ts: from + day * dayMs + 5, execId: `wide ${day}`, price: '2.1234567891' }),
  )
  await insertFills(database.db, wide)
  for (const attempt of ['first', 'second']) {
    const { written, problems: lines } = await archiveFills()
    expect(written, attempt).toEqual([])
    expect(lines, attempt).toHaveLength(2)
    for (const line of lines) expect(line).toMatch(/is missing; fills has values that need/)
  }
  await rename(`${path}.away`, path)
  expect(await archiveFills()).toMatchObject({ problems: [], written: [{}, {}] })
  const columns = (await columnsOfTables(archive.target, await readPointers(database.db))).get('fills') ?? []
  const files = await filesOf(archive.target, 'fills')
  expect(files).toHaveLength(3)
  for (const file of files) {
    for await (const { footer } of fileRows(archive, file)) {
      expect(isSameType(columns, footer.columns), file.path).toBe(true)
    }
  }
  expect(await rowsOf(archive.target, 'fills')).toHaveLength(32)
})
