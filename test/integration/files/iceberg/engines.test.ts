import { readFile, writeFile } from 'node:fs/promises'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { bucketTarget } from '../../../../src/files/bucket/target.js'
import type { ArchiveTarget } from '../../../../src/files/layout/target.js'
import { runReadOnlyQuery } from '../../../support/readOnlyQuery.js'
import { addKnown, multirangeText } from '../../../../src/ledger/verdicts.js'
import { systemClock } from '../../../../src/runtime/clock.js'
import { dialects, type EngineName, narrow, questions } from '../../../engines/questions.js'
import { archiveAll, temporaryArchive } from '../../../support/archives.js'
import { loadCookbookMarket } from '../../../support/cookbookMarket.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { engine, runEngine } from '../../../support/engines.js'
import { s3Environment, s3Missing, type S3Server, startS3 } from '../../../support/s3.js'
import { addCoverage } from '../../../support/coverage.js'

const dayMs = 86_400_000
const from = Date.UTC(2026, 2, 2)
const days = 30
/** An engine asks for minutes, and a bucket of a month takes as long to fill. */
const patienceMs = 1_800_000
const later = from + (days + 2) * dayMs

const names: readonly EngineName[] = ['duckdb', 'clickhouse', 'spark', 'trino']
const engines = names.map((name) => ({ name, ...engine(name) }))
const isAny = engines.some(({ python }) => python !== null)
const noBucket = isAny ? s3Missing() : ''

let source: TestDatabase
let expected: Map<string, readonly (readonly (string | null)[])[]>
let folder: Awaited<ReturnType<typeof temporaryArchive>>
let server: S3Server | undefined
const ran: { engine: string; place: string; same: number }[] = []

beforeAll(async () => {
  if (!isAny) return
  source = await createTestDatabase()
  await loadMonth(source)
  expected = new Map()
  // PostgreSQL has no such name for double precision.
  await source.database.pool.query('create domain public.double as double precision')
  for (const { title, sql: text } of questions) {
    const { rows } = await runReadOnlyQuery(source.database, text(dialects.postgres), { timeoutMs: 60_000 })
    expect(rows.length, title).toBeGreaterThan(0)
    expected.set(title, rows)
  }
  folder = await temporaryArchive()
})
afterAll(async () => {
  if (!isAny) return
  await writeTable()
  await folder.drop()
  await server?.close()
  await source.drop()
})

/** The two days of the cookbook fifteen times, one after the other. */
async function loadMonth({ database: { db } }: TestDatabase): Promise<void> {
  await loadCookbookMarket(db)
  const times: Readonly<Record<string, readonly string[]>> = {
    candles: ['open_time'],
    tickers: ['ts', 'received_at'],
    fills: ['ts', 'received_at'],
    order_books: ['ts', 'received_at'],
    rpi_order_books: ['ts', 'received_at'],
  }
  for (const [table, shifted] of Object.entries(times)) {
    const { rows } = await sql<{ name: string }>`
      select column_name as name from information_schema.columns
      where table_schema = 'market' and table_name = ${table} and is_generated = 'NEVER'`.execute(db)
    const columns = rows.map(({ name }) => sql.ref(name))
    const values = rows.map(({ name }) =>
      shifted.includes(name) ? sql`${sql.ref(name)} + make_interval(days => 2 * n)` : sql.ref(name),
    )
    await sql`
      insert into ${sql.table(`market.${table}`)} (${sql.join(columns)})
      select ${sql.join(values)} from ${sql.table(`market.${table}`)}, generate_series(1, ${days / 2 - 1}) n`.execute(
      db,
    )
  }
  const range = [{ from: from + 2 * dayMs, to: from + days * dayMs }]
  for (const symbol of ['BTCUSDT', 'ETHUSDT']) {
    const instrument = { category: 'USDT-FUTURES', symbol } as const
    await addCoverage(db, { stream: 'candles', ...instrument, type: 'market', interval: '1m' }, range)
    // The fills of the example are fewer than its candles show.
    await addKnown(db, { stream: 'fills', ...instrument, type: '', interval: '' }, 'recorded', multirangeText(range))
  }
}

/** Archives everything and shows it as tables; resolves to what an engine needs to find them. */
async function publish(target: ArchiveTarget): Promise<object> {
  const { db } = source.database
  await sql`truncate recorder.archived_day, recorder.changed_day, iceberg.iceberg_tables`.execute(db)
  try {
    expect((await archiveAll(source.database, target, later)).problems).toEqual([])
  } finally {
    await target.close()
  }
  const pointers = await db.selectFrom('iceberg.iceberg_tables').select(['table_name', 'metadata_location']).execute()
  const { username, password, host, pathname } = new URL(source.url)
  return {
    url: source.url,
    jdbc: `jdbc:postgresql://${host}${pathname}?currentSchema=iceberg`,
    user: username,
    password,
    tables: Object.fromEntries(pointers.map((one) => [one.table_name, one.metadata_location])),
  }
}

const places = [
  {
    place: 'a folder',
    open: async () => ({ target: folder.target, warehouse: `file://${folder.folder}`, s3: null }),
  },
  {
    place: 'a bucket',
    open: async () => {
      server = await startS3()
      Object.assign(process.env, s3Environment)
      const bucket = await server.makeBucket()
      const at = { bucket, prefix: '', endpoint: server.url, region: 'us-east-1', forcePathStyle: true }
      return {
        target: bucketTarget(at, { clock: systemClock, folder: `${folder.folder}.staged` }),
        warehouse: `s3://${bucket}`,
        s3: {
          endpoint: server.url,
          key: s3Environment.AWS_ACCESS_KEY_ID,
          secret: s3Environment.AWS_SECRET_ACCESS_KEY,
          region: 'us-east-1',
        },
      }
    },
  },
]

describe.skipIf(!isAny).each(places)('a month of the archive in $place', ({ place, open }) => {
  const isMissing = place === 'a bucket' && noBucket !== ''
  let request: object
  beforeAll(async () => {
    if (isMissing) return
    const { target, warehouse, s3 } = await open()
    request = { ...(await publish(target)), warehouse, s3 }
  }, patienceMs)

  test.each(
    engines.map(({ name, python, hint }) => ({ name, python, hint: hint + noBucket, title: name + hint + noBucket })),
  )(
    'is the same to PostgreSQL and $title',
    async ({ name, python, hint }) => {
      if (python === null || isMissing) return
      const dialect = dialects[name]
      const asked = questions.map(({ title, sql: text }) => ({ title, sql: text(dialect) }))
      const { version, results, bytesRead } = (await runEngine({ python, hint }, `${name}Engine.py`, {
        ...request,
        questions: asked,
        narrow: narrow.sql,
      })) as Report
      const different = questions.flatMap(({ title }) => {
        const result = results[title]
        if (result?.rows === undefined) return [`${title}: ${result?.error}`]
        const [found, wanted] = comparable(result.rows, expected.get(title) ?? [])
        return found === wanted ? [] : [`${title}: ${found.slice(0, 300)} instead of ${wanted.slice(0, 300)}`]
      })
      ran.push({ engine: version, place, same: questions.length - different.length })
      expect(different).toEqual([])
      // Engines that count bytes themselves.
      if (bytesRead !== null) expect(bytesRead / (await bytesOf(narrow.table))).toBeLessThanOrEqual(0.02)
    },
    patienceMs,
  )
})

interface Report {
  readonly version: string
  readonly results: Readonly<
    Record<string, { readonly rows?: readonly (readonly (string | number | null)[])[]; readonly error?: string }>
  >
  readonly bytesRead: number | null
}

/** Bytes of all files of a table. */
async function bytesOf(table: string): Promise<number> {
  const files = await folder.target.list(`market/${table}/data/`)
  return files.reduce((sum, { bytes }) => sum + bytes, 0)
}

/** Both as text. Columns in which an engine has floats are compared to eight digits, all others exactly. */
function comparable(
  found: readonly (readonly (string | number | null)[])[],
  wanted: readonly (readonly (string | null)[])[],
): [string, string] {
  const isFloat = (found[0] ?? []).map((_, i) => found.some((row) => typeof row[i] === 'number'))
  const text = (rows: readonly (readonly (string | number | null)[])[]) =>
    rows
      .map((row) =>
        row.map((value, i) => (value === null ? '-' : isFloat[i] ? rounded(Number(value)) : plain(String(value)))),
      )
      .map((row) => row.join(' '))
      .toSorted()
      .join('\n')
  return [text(found), text(wanted)]
}

function rounded(value: number): string {
  return String(Number(value.toPrecision(8)))
}

/** Times without their zone, which is UTC, and no zeros at the end of decimals and times. */
function plain(value: string): string {
  const text = value.replace(/^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d.*)\+00$/, '$1')
  return /\.\d+$/.test(text) ? text.replace(/\.?0+$/, '') : text
}

/** Writes into the documentation which engine gave how many of the results. */
async function writeTable(): Promise<void> {
  if (ran.length === 0) return
  const path = 'docs/archive.md'
  const versions = [...new Set(ran.map((one) => one.engine))]
  const count = (engine: string, place: string) => ran.find((one) => one.engine === engine && one.place === place)?.same
  const cell = (same: number | undefined) => (same === undefined ? 'not run' : `${same} of ${questions.length}`)
  const rows = versions.map((one) => [one, cell(count(one, 'a folder')), cell(count(one, 'a bucket'))])
  const head = ['engine', 'in a folder', 'in a bucket']
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]?.length ?? 0)))
  const line = (cells: readonly string[]) => `| ${cells.map((one, i) => one.padEnd(widths[i] ?? 0)).join(' | ')} |`
  const table = [line(head), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...rows.map(line)].join(
    '\n',
  )
  const page = await readFile(path, 'utf8')
  await writeFile(path, page.replace(/(<!-- engines -->\n\n)[\s\S]*?(\n\n<!-- engines end -->)/, `$1${table}$2`))
}
