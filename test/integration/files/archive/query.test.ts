import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { queryArchive } from '../../../../src/files/archive/duck.js'
import { runArchive } from '../../../../src/files/archive/run.js'
import { marketTables } from '../../../../src/market/stream.js'
import { runReadOnlyQuery } from '../../../../src/db/readOnlyQuery.js'
import { temporaryArchive } from '../../../support/archives.js'
import { loadCookbookMarket } from '../../../support/cookbookMarket.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { type Login, login } from '../../../support/login.js'
import { runProgram, startProgram } from '../../../support/program.js'
import { readRepositoryFile } from '../../../support/repositoryFiles.js'

const dayMs = 86_400_000
const from = Date.UTC(2026, 2, 2)

let source: TestDatabase
let reader: Login
let archive: Awaited<ReturnType<typeof temporaryArchive>>
let folder: string
beforeAll(async () => {
  source = await createTestDatabase()
  reader = await login(source, 'market_reader')
  archive = await temporaryArchive()
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-query-'))
  await loadCookbookMarket(source.database.db)
  // The first of the two days goes to the archive and leaves the database; the second is in the database alone.
  const now = from + dayMs + 2 * 3_600_000
  await runArchive(
    source.database,
    archive.target,
    { tables: marketTables, afterHours: 1 },
    { now: () => now, recorder: '0.0.0-test' },
  )
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
  await archive.drop()
  await reader.remove()
  await source.drop()
})

const futures = `category = 'USDT-FUTURES' and symbol = 'BTCUSDT'`
/** In SQL that both understand; what either rounds is rounded to the same digits. */
const questions = [
  `select count(*) as n from market.fills`,
  `select symbol, round(sum(price * size), 4) as turnover from market.fills group by 1 order by 1`,
  `select category::text as category, side::text as side, count(*) as n, sum(size) as size from market.fills
   group by 1, 2 order by 1, 2`,
  `select date_trunc('minute', ts)::text as minute, sum(size) as size, round(sum(price * size) / sum(size), 4) as vwap
   from market.fills where ${futures} group by 1 order by 1`,
  `select max(price) as high, min(price) as low from market.fills where ${futures}`,
  `select exec_id, price, size from market.fills where ${futures} order by size desc, exec_id limit 10`,
  `select open_time::text as at, open, high, low, close, base_volume from market.ohlcv_1h
   where ${futures} order by 1`,
  `select open_time::text as at, close, quote_turnover from market.ohlcv_1d order by category::text, symbol, 1`,
  `select category::text as category, symbol, count(*) as n, sum(base_volume) as volume from market.candles
   where is_closed group by 1, 2 order by 1, 2`,
  `select date_trunc('hour', open_time)::text as hour, max(high) - min(low) as range from market.candles
   where ${futures} and type = 'market' group by 1 order by 1`,
  `select count(*) as books, min(spread) as narrowest, max(spread) as widest from market.order_books`,
  `select ts::text as at, best_bid, best_ask, mid, spread from market.order_books where ${futures} order by ts limit 20`,
  `select side, level, sum(size) as size, min(price) as low from market.order_book_levels where ${futures}
   group by 1, 2 order by 1, 2`,
  `select side, sum(rpi_size) as rpi, sum(size) as size from market.rpi_order_book_levels group by 1 order by 1`,
  `select category::text as category, symbol, last_price, funding_rate from market.latest_tickers order by 1, 2`,
  `select symbol, count(*) as n, max(open_interest) as oi from market.tickers group by 1 order by 1`,
  `select category::text as category, symbol, status from market.instruments order by 1, 2`,
  `select symbol, count(*) as versions from market.instrument_history group by 1 order by 1`,
]

/** The cookbook's, as they stand there. */
const recipes = [...readRepositoryFile('docs/sql.md').matchAll(/### (.*)\n\n```sql\n([\s\S]*?)```/g)].map(
  ([, title = '', query = '']) => ({ title, query }),
)
/** Questions that ask for relations, or for a dialect, that the archive does not have. */
const databaseOnly = [
  'What did the service change afterwards?',
  'What did the service send that could not be understood?',
  'Which fields does the service send that its specification does not name?',
]
const ofArchive = recipes.filter(({ title, query }) => !databaseOnly.includes(title) && !/\bmarket\.\w+\(/.test(query))

/** Both as numbers without zeros at the end: the types differ in them. */
const plain = (rows: readonly (readonly (string | null)[])[]) =>
  rows.map((row) =>
    row.map((value) => (value !== null && /^-?\d+\.\d+$/.test(value) ? value.replace(/\.?0+$/, '') : value)),
  )

async function asked(question: string, database = true) {
  const query = { sql: question, folder, now: from + 2 * dayMs, maxRows: 100_000 }
  return queryArchive(archive.target, { ...query, ...(database && { database: reader.database }) })
}

describe('a query over archive and database', () => {
  test('gives values that hold several as JSON', async () => {
    const { columns, rows } = await asked("select [1.5, 2.25] as decimals, {'is': true} as fields")
    expect(columns.map(({ type }) => type)).toEqual(['json', 'json'])
    expect(rows).toEqual([['["1.50","2.25"]', '{"is":true}']])
  })

  test('keeps what does not fit into memory in the folder that goes with it', async () => {
    expect((await asked("select current_setting('temp_directory')")).rows).toEqual([[folder]])
  })

  test.each(questions)('gives what the database alone gave: %s', async (question) => {
    const expected = await runReadOnlyQuery(source.database, question, { timeoutMs: 60_000 })
    expect(expected.rows.length).toBeGreaterThan(0)
    const { columns, rows } = await asked(question)
    expect(columns.map(({ name }) => name)).toEqual(expected.columns.map(({ name }) => name))
    expect(plain(rows)).toEqual(plain(expected.rows))
  })

  test.each(ofArchive)("gives the cookbook's results: $title", async ({ query }) => {
    const expected = await runReadOnlyQuery(source.database, query, { timeoutMs: 60_000 })
    const { columns, rows } = await asked(query)
    expect(columns.map(({ name }) => name)).toEqual(expected.columns.map(({ name }) => name))
    expect(plain(rows)).toEqual(plain(expected.rows))
  })

  test.each(['coverage', 'gaps'])('knows the %s of the archived days without the database', async (name) => {
    const columns = `category::text as category, symbol, stream, type::text as type, interval::text as interval`
    const midnight = `'2026-03-03 00:00:00Z'::timestamptz`
    const end = name === 'coverage' ? `least(to_time, ${midnight})` : 'to_time'
    const expected = await runReadOnlyQuery(
      source.database,
      `select ${columns}, from_time, ${end} as to_time from market.${name} where from_time < ${midnight} order by 1, 2, 3, 6`,
      { timeoutMs: 60_000 },
    )
    const { rows } = await asked(`select ${columns}, from_time, to_time from market.${name} order by 1, 2, 3, 6`, false)
    expect(rows.length).toBeGreaterThan(1)
    expect(rows).toEqual(expected.rows)
  })

  test('gives more than half of the cookbook', () => {
    expect(ofArchive.length).toBeGreaterThanOrEqual(20)
    expect(recipes.map(({ title }) => title)).toEqual(expect.arrayContaining(databaseOnly))
  })

  test('takes each day from one of them alone', async () => {
    const perDay = `select (ts at time zone 'UTC')::date::text as day, count(*) as n from market.tickers group by 1 order by 1`
    const both = await asked(perDay)
    expect(both.rows).toHaveLength(2)
    const alone = await asked(perDay, false)
    expect(alone.rows).toEqual(both.rows.slice(0, 1))
    const oldest = sql`delete from market.tickers where ts < ${new Date(from + dayMs)}`
    await oldest.execute(source.database.db)
    expect((await asked(perDay)).rows).toEqual(both.rows)
  })
})

test('query --archive prints it as query does', async () => {
  const config = join(folder, 'recorder.yaml')
  await writeFile(config, `archive: { folder: '${archive.folder}' }\n`)
  const question = 'select side, count(*) as n from market.fills group by 1 order by 1'
  const run = (...args: string[]) =>
    runProgram(['query', '--config', config, ...args, question], { DATABASE_URL: reader.url })
  const [archived, stored] = [await run('--archive', '--csv'), await run('--csv')]
  expect(archived).toEqual(stored)
  expect(archived.exitCode).toBe(0)
})

describe('query --archive ends and leaves no files behind', () => {
  const start = async (...args: string[]) => {
    const config = join(folder, 'recorder.yaml')
    const temporary = join(folder, 'temporary')
    await mkdir(temporary, { recursive: true })
    await writeFile(config, `archive: { folder: '${archive.folder}' }\n`)
    const env = { DATABASE_URL: source.url, TMPDIR: temporary }
    const started = startProgram(['query', '--archive', '--config', config, ...args], env)
    onTestFinished(() => void started.process.kill('SIGKILL'))
    return { ...started, temporary }
  }

  test('when its time is over while DuckDB works', async () => {
    const endless = 'select sum(a.range * b.range % 7) from range(10000000) a, range(10000000) b'
    const { finished, temporary } = await start('--offline', '--timeout', '2', endless)
    const { exitCode, stderr } = await finished
    expect([exitCode, stderr]).toEqual([1, expect.stringMatching(/^error: not done after 2 s; .*--timeout\n$/)])
    expect(await readdir(temporary)).toEqual([])
  })

  test.each(['fills', 'coverage'])('when it is stopped while the database has not given %s', async (name) => {
    const locker = await source.database.pool.connect()
    onTestFinished(() => locker.release(true))
    await locker.query(`begin; lock table ${name === 'fills' ? 'market.fills' : 'recorder.ledger'}`)
    const { finished, process, temporary } = await start(`select count(*) from market.${name}`)
    const waiting = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    await vi.waitFor(async () => expect((await source.database.pool.query(waiting)).rowCount).toBe(1), 20_000)
    process.kill('SIGINT')
    expect(await finished).toEqual({ exitCode: 130, stdout: '', stderr: 'error: stopped by SIGINT\n' })
    expect(await readdir(temporary)).toEqual([])
    expect((await source.database.pool.query(waiting)).rowCount).toBe(0)
  })
})
