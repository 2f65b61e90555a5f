import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { noteService } from '../../../../src/db/identity.js'
import { describeSource, type ExportManifest } from '../../../../src/files/export/request.js'
import { runExport } from '../../../../src/files/export/run.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { insertFills } from '../../../support/insertFills.js'
import { aFill } from '../../../support/marketRows.js'

const dayMs = 86_400_000
const from = Date.UTC(2026, 2, 1)
let created: TestDatabase
let folder: string
let fills: ReturnType<typeof aFill>[]

beforeAll(async () => {
  created = await createTestDatabase()
  const { db } = created.database
  await noteService(db, 'https://api.example.com')
  const symbols = ['BTCUSDT', 'ETHUSDT', 'A/B']
  fills = Array.from({ length: 450 }, (_, i) =>
    aFill({ symbol: symbols[i % 3] ?? '', ts: from + Math.floor(i / 150) * dayMs + i, execId: String(i) }),
  )
  await insertFills(db, fills)
})
afterAll(() => created.drop())
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-export-'))
  return async () => rm(folder, { recursive: true, force: true })
})

type Changes = Partial<Parameters<typeof runExport>[1]>
async function exportOf(what: string, changes: Changes = {}, onNote?: (text: string) => void) {
  const source = await describeSource(created.database, what)
  const request = { what, source, folder, format: 'parquet' as const, from, to: from + 3 * dayMs, ...changes }
  return runExport(created.database, request, { ...(onNote && { onNote }) })
}

async function files(): Promise<string[]> {
  const all = await readdir(folder, { recursive: true, withFileTypes: true })
  return all.filter((entry) => entry.isFile()).map(({ name }) => name)
}

const query = (text: string, values: unknown[] = []) => created.database.pool.query(text, values)

describe('an export', () => {
  test('removes nothing where it has written nothing', async () => {
    const theirs = [join(folder, 'day=2026-03-01', 'part'), join(folder, 'all')]
    for (const path of theirs) await mkdir(path, { recursive: true })
    await writeFile(join(folder, 'all', 'x.txt'), 'mine')
    const before = await readdir(folder, { recursive: true })
    for (const isOverwriting of [false, true])
      await expect(exportOf('fills', { isOverwriting })).rejects.toThrow(/holds what no export .* wrote \((all|day=)/)
    expect(await readdir(folder, { recursive: true })).toEqual(before)
  })

  test('replaces only days that it has written, also with --overwrite', async () => {
    await exportOf('fills', { to: from + dayMs })
    await mkdir(join(folder, 'day=2026-03-02'))
    await expect(exportOf('fills')).rejects.toThrow(/wrote \(day=2026-03-02\): export into another folder/)
    await exportOf('candles', { to: from + dayMs, isOverwriting: true })
    expect((await readdir(folder)).toSorted()).toEqual(['day=2026-03-02', 'export.json'])
    expect((await files()).filter((path) => path.includes('fills'))).toEqual([])
  })

  test('replaces a day that was being written when it was killed', async () => {
    await exportOf('fills')
    const manifest = JSON.parse(await readFile(join(folder, 'export.json'), 'utf8')) as ExportManifest
    const killed = { ...manifest.parts['2026-03-02'], rows: 0, files: 0, fingerprint: '' }
    const parts = { ...manifest.parts, '2026-03-02': killed }
    await writeFile(join(folder, 'export.json'), JSON.stringify({ ...manifest, parts }))
    await mkdir(join(folder, '.day=2026-03-02'))
    expect(await exportOf('fills')).toMatchObject({ rows: 150, partsSkipped: 2 })
    expect(await exportOf('fills')).toMatchObject({ rows: 0, partsSkipped: 3 })
  })

  test('keeps the files of rows that have left the database, and says so', async () => {
    await exportOf('fills')
    const { rows: gone } = await query('delete from market.fills where ts < $1 returning *', [new Date(from + dayMs)])
    await query("delete from market.fills where exec_id = '160'")
    onTestFinished(async () => {
      await query('truncate market.fills')
      await insertFills(created.database.db, fills)
    })
    expect(gone).toHaveLength(150)
    const notes: string[] = []
    const again = await exportOf('fills', {}, (text) => notes.push(text))
    expect(again).toMatchObject({ rows: 0, partsSkipped: 1, partsKept: ['2026-03-01', '2026-03-02'] })
    expect(notes).toEqual([expect.stringMatching(/^files of 2026-03-01, 2026-03-02 stay: .*--overwrite/)])
    expect(await files()).toHaveLength(10)
  })

  test('keeps the former files of a day that it was replacing when it was killed', async () => {
    await exportOf('fills')
    await rename(join(folder, 'day=2026-03-01'), join(folder, '.day=2026-03-01.former'))
    await mkdir(join(folder, '.day=2026-03-01'))
    await query('delete from market.fills where ts < $1', [new Date(from + dayMs)])
    onTestFinished(async () => {
      await query('truncate market.fills')
      await insertFills(created.database.db, fills)
    })
    expect(await exportOf('fills')).toMatchObject({ rows: 0, partsSkipped: 2, partsKept: ['2026-03-01'] })
    expect(await files()).toHaveLength(10)
  })

  test('writes the file of a query without time anew at each call', async () => {
    for (const rows of [2, 2])
      expect(await exportOf('select * from (values (1), (2)) as v (n)')).toMatchObject({ rows, partsKept: [] })
  })

  test('keeps the rows of a day that an export with other times wrote', async () => {
    const [early, late] = [from + 70, from + 140]
    expect(await exportOf('fills', { to: late })).toMatchObject({ rows: 140 })
    expect(await exportOf('fills', { from: early, to: late })).toMatchObject({ rows: 0, partsSkipped: 1 })
    expect(await exportOf('fills', { from: early })).toMatchObject({ rows: 450, partsSkipped: 0 })
  })

  test('waits for another one into the same folder, and loses nothing', async () => {
    const results = await Promise.all([exportOf('fills'), exportOf('fills'), exportOf('fills')])
    expect(results.map(({ rows }) => rows).toSorted((a, b) => a - b)).toEqual([0, 0, 450])
    expect(await files()).toHaveLength(10)
  })

  test.each([
    ['another database', "update recorder.service set id = '00000000-0000-4000-8000-000000000000'"],
    ['a copy', "update recorder.service set places = '{elsewhere}'"],
    ['a database without a name', 'delete from recorder.service'],
  ])('is not continued by %s', async (_, statement) => {
    await exportOf('fills')
    const path = join(folder, 'export.json')
    const written = await readFile(path, 'utf8')
    // What is written at another place is what a copy finds.
    if (statement.includes('places')) await writeFile(path, written.replace(/"place": "/, '"place": "0'))
    const { id } = await created.database.db.selectFrom('recorder.service').select('id').executeTakeFirstOrThrow()
    onTestFinished(async () => {
      await query('delete from recorder.service')
      await noteService(created.database.db, 'https://api.example.com')
      await query('update recorder.service set id = $1', [id])
    })
    await query(statement)
    await expect(exportOf('fills')).rejects.toThrow(
      /(holds an export of another database|no recorder has named this database): .*--overwrite/,
    )
    await exportOf('fills', { isOverwriting: true })
    if (statement.startsWith('delete')) await expect(exportOf('fills')).rejects.toThrow('no recorder has named')
    else expect(await exportOf('fills')).toMatchObject({ rows: 0, partsSkipped: 3 })
  })
})
