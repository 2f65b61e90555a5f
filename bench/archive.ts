import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { createLogger } from '../src/runtime/logger.js'
import { openDatabase } from '../src/db/database.js'
import { migrateToLatest } from '../src/db/migrate.js'
import { startEmbeddedPostgres } from '../src/server/embedded/embedded.js'
import { benchBigDay } from './archiveBigDay.js'
import { archiveFiles, loadBooks } from './archiveData.js'
import { benchGrowth } from './archiveGrowth.js'
import { killInBucket, killInFolder } from './archiveKills.js'
import { type ArchiveBench, configure, runWell } from './archiveRuns.js'
import type { Check } from './figures.js'
import { loadCandles } from './sqlData.js'

/** Measures the disk, memory and time that an archive takes, and kills its process again and again. */
export async function benchArchive(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      fills: { type: 'string', default: '5000000' },
      candles: { type: 'string', default: '500000' },
      books: { type: 'string', default: '20000' },
      kills: { type: 'string', default: '20' },
      only: { type: 'string', default: 'size,day,kills' },
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
    if (parts.includes('day')) checks.push(...(await benchBigDay(bench, Number(values.fills))))
    if (parts.includes('growth')) checks.push(...(await benchGrowth(bench)))
    if (parts.includes('kills') && !values.bucket) checks.push(...(await killInFolder(bench, Number(values.kills))))
    if (parts.includes('kills') && values.bucket) checks.push(...(await killInBucket(bench, Number(values.kills))))
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
  sizes: { readonly candles: string; readonly books: string },
): Promise<Check[]> {
  const { pool } = bench.database
  console.log(`loading ${sizes.candles} candles and ${sizes.books} books of 100 levels`)
  await loadCandles(pool, Number(sizes.candles))
  await loadBooks(pool, '2026-02-01', Number(sizes.books))
  await pool.query('vacuum analyze market.candles, market.order_books')
  const checks: Check[] = []
  for (const [table, what, maxBytes, parts] of [
    ['candles', 'bytes a candle', 20, 1],
    ['order_books', 'bytes a side of a book of 100 levels', 90, 2],
  ] as const) {
    const place = join(bench.root, table)
    const config = await configure(bench, table, `archive: { folder: '${place}', tables: [${table}] }`)
    await runWell(bench, config, ['archive'])
    const { rows, bytes } = await archiveFiles(place)
    const each = bytes / rows / parts
    checks.push({ what, measured: each.toFixed(1), target: `≤ ${maxBytes}`, isMet: each <= maxBytes })
  }
  await pool.query('truncate market.candles, market.order_books, recorder.archived_day')
  return checks
}
