import { createHash } from 'node:crypto'
import { cp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { manifestPath, type Manifest, proofDigest } from '../../src/files/archive/manifest.js'
import { linesOf, parquetColumns, RowDigest, serverRow } from '../../src/files/archive/rowText.js'
import { createParquetFile, openParquet } from '../../src/files/parquet/file.js'

/** A day that is never the victim. */
export const wholeDay = '2026-03-02'

/** A day of an archive in a folder that has other days as well. */
export interface Victim {
  readonly folder: string
  readonly table: string
  readonly day: string
}

/**
 * `damaged`: the archive by itself gives it away. `missing`: only who knows the day misses it. `forged`: every sum of the archive was made
 * to fit, and only the database that wrote it can tell.
 */
export type Visibility = 'damaged' | 'missing' | 'forged'

export interface Mutation {
  readonly title: string
  readonly visibility: Visibility
  readonly apply: (victim: Victim) => Promise<void>
}

type Editable = { -readonly [Key in keyof Manifest]: Manifest[Key] }
type Edit = (manifest: Editable) => unknown

function fileOf({ folder, table, day }: Victim, of = { table, day }): string {
  return join(folder, manifestPath({ ...of, version: 1 }))
}

async function readOf(victim: Victim): Promise<Editable> {
  return JSON.parse(await readFile(fileOf(victim), 'utf8')) as Editable
}

/** Fits all sums of a manifest to what it says. */
function sealed(manifest: Editable): Editable {
  const { sha256: _, ...body } = { ...manifest, proofSha256: proofDigest(manifest.proof) }
  return { ...body, sha256: createHash('sha256').update(JSON.stringify(body)).digest('hex') }
}

function edit(title: string, change: Edit): Mutation {
  return {
    title,
    visibility: 'damaged',
    async apply(victim) {
      const manifest = await readOf(victim)
      change(manifest)
      await writeFile(fileOf(victim), JSON.stringify(manifest))
    },
  }
}

function forge(title: string, change: Edit, visibility: Visibility = 'damaged'): Mutation {
  return {
    title: `${title}, with sums that fit`,
    visibility,
    async apply(victim) {
      const manifest = await readOf(victim)
      change(manifest)
      await writeFile(fileOf(victim), JSON.stringify(sealed(manifest)))
    },
  }
}

/** Changes the first file of the day; `isSealed`: the manifest is told of its new bytes. */
function file(
  title: string,
  change: (path: string, victim: Victim, manifest: Editable) => Promise<unknown>,
  { isSealed = false, visibility = 'damaged' }: { isSealed?: boolean; visibility?: Visibility } = {},
): Mutation {
  return {
    title: isSealed ? `${title}, with sums that fit` : title,
    visibility,
    async apply(victim) {
      const manifest = await readOf(victim)
      const [first] = manifest.files
      if (first === undefined) throw new Error('the day has no files')
      const path = join(victim.folder, first.path)
      await change(path, victim, manifest)
      if (!isSealed) return
      const bytes = await readFile(path)
      const sum = createHash('sha256').update(bytes).digest('hex')
      Object.assign(manifest.files[0] ?? {}, { bytes: bytes.length, sha256: sum })
      await writeFile(fileOf(victim), JSON.stringify(sealed(manifest)))
    },
  }
}

/** Writes a file again with other rows. */
async function rewrite(path: string, manifest: Editable, change: (rows: (string | null)[][]) => (string | null)[][]) {
  const rows: (string | null)[][] = []
  for await (const batch of (await openParquet(path)).batches()) {
    rows.push(...batch.map(serverRow(manifest.columns)))
  }
  const changed = change(rows)
  const written = await createParquetFile(path, parquetColumns(manifest.columns))
  await written.write(changed)
  await written.close()
  return changed
}

/** Some kilobytes that unfold to more than a gigabyte: every row has one long text. */
async function writeBomb(path: string, { columns }: Editable): Promise<void> {
  const long = 'x'.repeat(7_000_000)
  const written = await createParquetFile(path, parquetColumns(columns))
  const rows = Array.from({ length: 30 }, () =>
    columns.map(({ type }) => {
      if (type === 'timestamptz' || type === 'numeric') return '1'
      return type === 'bool' ? 't' : long
    }),
  )
  for (const row of rows) await written.write([row])
  await written.close()
}

const elsewhere = '1'.repeat(64)
const firstFile = (manifest: Editable) =>
  manifest.files[0] as { path: string; bytes: number; rows: number; sha256: string }
const firstProof = (manifest: Editable) => manifest.proof[0] as (typeof manifest.proof)[number]
const firstDigest = (manifest: Editable) => Object.values(manifest.digests)[0] as { rows: number; sha256: string }
const firstColumn = (manifest: Editable) => manifest.columns[1] as { name: string; type: string; digits?: number }

export const mutations: readonly Mutation[] = [
  edit('a row more', (manifest) => (manifest.rows += 1)),
  edit('another version', (manifest) => (manifest.version = 2)),
  edit('another format', (manifest) => Object.assign(manifest, { format: 2 })),
  edit('another recorder', (manifest) => (manifest.recorder = '9.9.9')),
  edit('another time of writing', (manifest) => (manifest.writtenAt = '2020-01-01T00:00:00.000Z')),
  edit('another schema', (manifest) => (manifest.schema = '0001')),
  edit('a field that does not belong', (manifest) => Object.assign(manifest, { more: 1 })),
  edit('a field left out', (manifest) => Object.assign(manifest, { rows: undefined })),
  edit('another name of a column', (manifest) => (firstColumn(manifest).name = 'category')),
  edit('another type of a column', (manifest) => (firstColumn(manifest).type = 'jsonb')),
  edit('columns in another order', (manifest) => manifest.columns.reverse()),
  edit('a column left out', (manifest) => manifest.columns.pop()),
  edit('another digest of rows', (manifest) => (firstDigest(manifest).sha256 = elsewhere)),
  edit('another count of rows of a category', (manifest) => (firstDigest(manifest).rows += 1)),
  edit('no files', (manifest) => (manifest.files = [])),
  edit('a file left out', (manifest) => manifest.files.pop()),
  edit('another size of a file', (manifest) => (firstFile(manifest).bytes += 1)),
  edit('another count of rows of a file', (manifest) => (firstFile(manifest).rows += 1)),
  edit('another digest of a file', (manifest) => (firstFile(manifest).sha256 = elsewhere)),
  edit('another first row', (manifest) => Object.assign(manifest.files[0]?.first ?? {}, { symbol: 'ZZZ' })),
  edit('no proof', (manifest) => (manifest.proof = [])),
  edit('a wider proof', (manifest) =>
    firstProof(manifest).coverage.push(['2026-03-02T23:00:00Z', '2026-03-02T23:30:00Z']),
  ),
  edit('another digest of the proof', (manifest) => (manifest.proofSha256 = elsewhere)),
  edit('another digest of it all', (manifest) => (manifest.sha256 = elsewhere)),
  forge('no files', (manifest) => (manifest.files = [])),
  forge(
    'a proof of decades',
    (manifest) => (firstProof(manifest).coverage = [['2026-03-02T00:00:00Z', '2100-01-01T00:00:00Z']]),
  ),
  forge('a proof of another stream', (manifest) => (firstProof(manifest).stream = 'tickers')),
  forge('a path out of the archive', (manifest) => (firstFile(manifest).path = '../../etc/passwd')),
  forge('a path from the root', (manifest) => (firstFile(manifest).path = '/etc/passwd')),
  forge('the file of another category twice', (manifest) => {
    for (const one of manifest.files) one.path = firstFile(manifest).path.replace(/SPOT|USDT-FUTURES/, 'MARGIN')
  }),
  forge('a name that is SQL', (manifest) => (firstColumn(manifest).name = 'x", lo_create(0) as "y')),
  forge('a type that is SQL', (manifest) => (firstColumn(manifest).type = 'text); select lo_create(0')),
  forge('another day', (manifest) => (manifest.day = '2026-02-09')),
  forge('another table', (manifest) => (manifest.table = 'tickers')),
  forge('a column that no table has', (manifest) => (firstColumn(manifest).name = 'bogus')),
  forge(
    'nothing in it',
    (manifest) => Object.assign(manifest, { files: [], digests: {}, rows: 0, proof: [] }),
    'forged',
  ),
  forge(
    'a file left out, as if it had never been',
    (manifest) => {
      const gone = manifest.files.pop()
      manifest.rows -= gone?.rows ?? 0
      if (gone) delete manifest.digests[gone.category]
    },
    'forged',
  ),
  {
    title: 'the manifest of another day',
    visibility: 'damaged',
    apply: (victim) => cp(fileOf(victim, { table: 'fills', day: wholeDay }), fileOf(victim)),
  },
  {
    title: 'the manifest of another table',
    visibility: 'damaged',
    apply: (victim) =>
      cp(fileOf(victim, { table: victim.table === 'fills' ? 'candles' : 'fills', day: wholeDay }), fileOf(victim)),
  },
  {
    title: 'the manifest once more, as a later version',
    visibility: 'damaged',
    apply: (victim) => cp(fileOf(victim), fileOf(victim).replace('v0001', 'v0002')),
  },
  { title: 'no manifest', visibility: 'missing', apply: (victim) => rm(fileOf(victim)) },
  {
    title: 'nothing of the day',
    visibility: 'missing',
    async apply(victim) {
      await rm(fileOf(victim))
      await rm(join(victim.folder, `table=${victim.table}`, `day=${victim.day}`), { recursive: true })
    },
  },
  {
    title: 'half a manifest',
    visibility: 'damaged',
    async apply(victim) {
      const bytes = await readFile(fileOf(victim))
      await writeFile(fileOf(victim), bytes.subarray(0, bytes.length / 2))
    },
  },
  { title: 'an empty manifest', visibility: 'damaged', apply: (victim) => writeFile(fileOf(victim), '') },
  file('a byte changed', async (path) => {
    const bytes = await readFile(path)
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1
    await writeFile(path, bytes)
  }),
  file('half a file', async (path) => {
    const bytes = await readFile(path)
    await writeFile(path, bytes.subarray(0, bytes.length / 2))
  }),
  file('a file that is longer', (path) => writeFile(path, 'more', { flag: 'a' })),
  file('an empty file', (path) => writeFile(path, '')),
  file('no file', (path) => rm(path)),
  file('the file of another day', (path, victim) => cp(path.replace(victim.day, wholeDay), path)),
  file('the file of another day', (path, victim) => cp(path.replace(victim.day, wholeDay), path), {
    isSealed: true,
  }),
  file('a link out of the archive', async (path, victim) => {
    const outside = `${victim.folder}.outside`
    await cp(path, outside)
    await rm(path)
    await symlink(outside, path)
  }),
  file('garbage', (path) => writeFile(path, 'PAR1garbagePAR1'), { isSealed: true }),
  file('more than a gigabyte in some kilobytes', (path, _, manifest) => writeBomb(path, manifest), { isSealed: true }),
  file('a row left out', (path, _, manifest) => rewrite(path, manifest, (rows) => rows.slice(1)), { isSealed: true }),
  file(
    'a row left out, as if it had never been',
    async (path, _, manifest) => {
      const rows = await rewrite(path, manifest, (all) => all.slice(1))
      const digest = new RowDigest()
      for (const row of rows) digest.add(linesOf(manifest.columns).ofServer(row))
      Object.assign(firstDigest(manifest), digest.sum())
      Object.assign(firstFile(manifest), { rows: digest.rows })
      manifest.rows -= 1
    },
    { isSealed: true, visibility: 'forged' },
  ),
]
