import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { createLogger } from '../src/runtime/logger.js'
import { openDatabase } from '../src/store/db/database.js'
import { migrateToLatest } from '../src/store/db/migrate.js'
import { startEmbeddedPostgres } from '../src/store/embedded/embedded.js'
import { archiveFiles, loadBooks, loadFills } from './archiveData.js'
import { benchDays } from './archiveDays.js'
import { killInBucket, killInFolder } from './archiveKills.js'
import { type ArchiveBench, configure, runWell } from './archiveRuns.js'
import type { Check } from './figures.js'
import { loadCandles } from './sqlData.js'

/** What an archive takes of disk, memory and time, and what is left of it when its process is killed again and again. */
export async function benchArchive(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      fills: { type: 'string', default: '5000000' },
      candles: { type: 'string', default: '500000' },
      books: { type: 'string', default: '20000' },
      kills: { type: 'string', default: '20' },
      days: { type: 'string', default: '30' },
      only: { type: 'string', default: 'size,kills,days' },
      bucket: { type: 'boolean', default: false },
    },
  })
  const parts = values.only.split(',')
  const root = await mkdtemp(join(tmpdir(), 'market-recorder-bench-archive-'))
  const server = await startEmbeddedPostgres({ dataDir: join(root, 'postgres'), logger: createLogger('warn') })
  const database = openDatabase({ url: server.url })
  try {
    await migrateToLatest(database)
    const bench = { root, url: server.url, database }
    const checks: Check[] = []
    if (parts.includes('size')) checks.push(...(await measureSize(bench, values)))
    if (parts.includes('kills') && !values.bucket) checks.push(...(await killInFolder(bench, Number(values.kills))))
    if (parts.includes('kills') && values.bucket) checks.push(...(await killInBucket(bench, Number(values.kills))))
    if (parts.includes('days')) checks.push(...(await benchDays(bench, Number(values.days))))
    const table = new Table({ head: ['what', 'measured', 'wanted', ''], style: { head: [], border: [] } })
    for (const { what, measured, target, isMet } of checks)
      table.push([what, measured, target, isMet ? 'ok' : 'MISSED'])
    console.log(table.toString())
    return checks.every(({ isMet }) => isMet) ? 0 : 1
  } finally {
    await database.close()
    await server.stop()
    await rm(root, { recursive: true, force: true })
  }
}

async function measureSize(
  bench: ArchiveBench,
  sizes: { readonly fills: string; readonly candles: string; readonly books: string },
): Promise<Check[]> {
  const { pool } = bench.database
  console.log(`loading ${sizes.fills} fills of a day, ${sizes.candles} candles and ${sizes.books} books of 100 levels`)
  await loadFills(pool, '2026-02-01', Number(sizes.fills))
  await loadCandles(pool, Number(sizes.candles))
  await loadBooks(pool, '2026-02-01', Number(sizes.books))
  await pool.query('vacuum analyze market.fills, market.candles, market.order_books')
  const checks: Check[] = []
  for (const [table, maxBytes] of [
    ['candles', 20],
    ['order_books', 180],
    ['fills', null],
  ] as const) {
    const config = await configure(
      bench,
      table,
      `archive: { folder: '${join(bench.root, table)}', tables: [${table}] }`,
    )
    const { seconds, peakMb } = await runWell(bench, config, ['archive'])
    const { rows, bytes } = await archiveFiles(join(bench.root, table))
    const perRow = bytes / rows
    checks.push({
      what: `${table}: bytes a row`,
      measured: perRow.toFixed(1),
      target: maxBytes === null ? 'none' : `≤ ${maxBytes}`,
      isMet: maxBytes === null || perRow <= maxBytes,
    })
    if (table !== 'fills') continue
    const copySeconds = await timed(() => pool.query(`copy market.fills to stdout`))
    checks.push(
      {
        what: `fills: memory of the process, ${rows} rows of a day`,
        measured: `${peakMb} MB`,
        target: '≤ 300 MB',
        isMet: peakMb <= 300,
      },
      {
        what: 'fills: time, read back included, as a multiple of COPY',
        measured: (seconds / copySeconds).toFixed(1),
        target: 'none',
        isMet: true,
      },
      { what: 'fills: rows a second', measured: Math.round(rows / seconds).toString(), target: 'none', isMet: true },
    )
  }
  await pool.query('truncate market.fills, market.candles, market.order_books, recorder.archived_day')
  return checks
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return (performance.now() - startedAt) / 1000
}
