import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { folderTarget } from '../../../src/files/layout/target.js'
import { rowsOf } from '../../support/archives.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { asAdmin, databaseUrl, dropDatabase } from '../../support/databaseServer.js'
import { endPrograms, startProgram } from '../../support/program.js'
import { type SimulatorProcess, startSimulatorProcess } from '../../support/simulatorProcess.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const dayMs = 86_400_000
const now = Date.now()
const daysAgo = (days: number) => new Date(now - days * dayMs).toISOString()
const root = temporaryFolder('disaster')
const { adminUrl } = inject('testServer')
const times = { timeout: 240_000, interval: 500 }

let simulator: SimulatorProcess
let first: TestDatabase
let url: string
let name: string
let folder: string
let archiveFolder: string
beforeEach(async () => {
  name = `recorder_test_disaster_${randomBytes(4).toString('hex')}`
  folder = join(root, name)
  archiveFolder = join(folder, 'archive')
  await mkdir(folder)
  simulator = await startSimulatorProcess(['--scale', 'tiny', '--limit-factor', '10'])
  first = await createTestDatabase()
  url = first.url
  const config = {
    exchange: { baseUrl: simulator.url },
    archive: { folder: archiveFolder, tables: ['fills', 'candles'] },
    storage: { fills: { retentionDays: 4 }, candles: { retentionDays: 4 } },
    serve: { enabled: false },
    database: { dataDir: join(folder, 'data') },
  }
  await writeFile(join(folder, 'recorder.yaml'), JSON.stringify(config))
})
afterEach(async () => {
  await endPrograms()
  await simulator?.close()
  for (const database of [`${name}_dump`, `${name}_back`]) await dropDatabase(adminUrl, database)
})

const start = (...args: readonly string[]) =>
  startProgram([...args, '--config', join(folder, 'recorder.yaml')], { DATABASE_URL: url })
async function run(...args: readonly string[]) {
  const finished = await start(...args).finished
  expect(finished, `${args.join(' ')}: ${finished.stderr}`).toMatchObject({ exitCode: 0 })
  return finished
}
async function backfill(from: number, to: number) {
  const range = ['--from', daysAgo(from), '--to', daysAgo(to)]
  const fills = await run('backfill', '--stream', 'fills', '--category', 'SPOT', '--symbol', 'WEIUSDT', ...range)
  const candles = await run('backfill', '--category', 'SPOT', '--symbol', 'WEIUSDT', '--interval', '1H', ...range)
  return [fills.stderr, candles.stderr]
}
async function query<Row extends object>(text: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<Row>(text)).rows
  } finally {
    await client.end()
  }
}
/** Writes days that changed as if six hours had passed. */
async function archiveAndRemove(): Promise<void> {
  await query(`
    update recorder.archived_day set archived_at = archived_at - interval '6 hours', due_at = due_at - interval '6 hours'`)
  await run('archive', '--remove')
}
/** Copies a database that nobody uses any more. The server's own workers may be connected to it. */
async function copyDatabase(from: string, to: string): Promise<void> {
  await asAdmin(adminUrl, `alter database ${from} allow_connections false`)
  const ended = `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${from}'`
  await expect
    .poll(async () => {
      await asAdmin(adminUrl, ended).catch(() => undefined)
      return asAdmin(adminUrl, `create database ${to} template ${from}`).then(
        () => 'copied',
        (error: unknown) => (error as Error).message,
      )
    }, times)
    .toBe('copied')
  await asAdmin(adminUrl, `alter database ${from} allow_connections true`)
}
test('a database is lost, and an old dump of it and its archive are brought back', async () => {
  const lost = new URL(url).pathname.slice(1)
  await backfill(13, 8)
  await run('archive')
  await first.database.close()
  await copyDatabase(lost, `${name}_dump`)
  await backfill(8, 0.2)
  await archiveAndRemove()
  const archived = {
    fills: await rowsOf(folderTarget(archiveFolder), 'fills'),
    candles: await rowsOf(folderTarget(archiveFolder), 'candles'),
  }
  // Eleven whole days, and as much of the first day as had not begun yet thirteen days ago.
  expect(archived.candles.length).toBeGreaterThanOrEqual(11 * 24)
  expect(await query(`select from market.candles where open_time < '${daysAgo(12)}'`)).toEqual([])

  await dropDatabase(adminUrl, lost)
  await copyDatabase(`${name}_dump`, `${name}_back`)
  url = databaseUrl(adminUrl, `${name}_back`)
  await run('migrate')
  const refused = await start('archive').finished
  expect(refused).toMatchObject({ exitCode: 1 })
  expect(refused.stderr).toMatch(/belongs to another database: archive adopt takes it over/)
  expect((await run('archive', 'adopt')).stdout).toMatch(/^took over \d+ days of tables/)
  const restartedAt = new Date().toISOString()
  const recorder = start('start', '--allow-overload')
  const fresh = () =>
    query(`select from market.candles where symbol = 'WEIUSDT' and is_closed and open_time > '${daysAgo(0.1)}' limit 1`)
  await expect.poll(fresh, times).toHaveLength(1)
  await expect
    .poll(
      () => query(`select from market.fills where symbol = 'BTCUSDT' and received_at > '${restartedAt}' limit 1`),
      times,
    )
    .toHaveLength(1)
  recorder.process.kill('SIGTERM')
  expect(await recorder.finished).toMatchObject({ exitCode: 0 })

  // What is final is neither fetched nor stored again; what is missing can be.
  for (const said of await backfill(13, 0.2))
    expect(said).toMatch(/left out: \d+ hours of 1 series, whose rows have left/)
  await archiveAndRemove()
  expect((await run('archive', 'verify')).stdout).toMatch(/: ok\n$/)
  // Rows that the dump has, and the archive too, have left the database as well.
  expect(await query(`select from market.fills where ts < '${daysAgo(12)}' limit 1`)).toEqual([])
  for (const table of ['fills', 'candles'] as const) {
    const after = await rowsOf(folderTarget(archiveFolder), table)
    const found = new Set(after.map((row) => JSON.stringify(row)))
    expect(archived[table].filter((row) => !found.has(JSON.stringify(row)))).toEqual([])
    const keys = after.map((row) =>
      [row['category'], row['symbol'], row['type'], row['interval'], row['open_time'], row['ts'], row['exec_id']].join(
        ' ',
      ),
    )
    expect(new Set(keys).size).toBe(keys.length)
  }
  // Every moment is known: recorded, final, or named as missing.
  const unknown = await query(`
    select tstzmultirange(tstzrange('${daysAgo(12.9)}', '${daysAgo(0.25)}')) - range_agg(r) as unknown
    from recorder.ledger cross join lateral unnest(ranges) as r
    where stream in ('fills', 'candles') and symbol = 'WEIUSDT' and interval in ('', '1H')
      and verdict in ('recorded', 'final', 'missing', 'lost')
    group by stream`)
  expect(unknown).toEqual([{ unknown: '{}' }, { unknown: '{}' }])
}, 1_800_000)
