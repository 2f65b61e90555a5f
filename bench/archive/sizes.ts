import { join } from 'node:path'
import { atMost, type Check, check, figure } from '../tools/checks.js'
import type { BenchDatabase } from '../tools/database.js'
import { configFile } from '../tools/recorder.js'
import { archiveFiles, loadBooks, loadCandles, loadFills } from './data.js'
import { runWell } from './runs.js'

const maxMb = 300

/** Bytes of a candle and of a side of an order book in the archive. */
export async function measureSize(bench: BenchDatabase, candles: number, books: number): Promise<Check[]> {
  const { pool } = bench.database
  console.log(`loading ${candles} candles and ${books} books of 100 levels`)
  await loadCandles(pool, candles)
  await loadBooks(pool, '2026-02-01', books)
  await pool.query('vacuum analyze market.candles, market.order_books')
  const bytesOfRow = async (table: string) => {
    const { folder, config } = await archiveOf(bench, table, table)
    await runWell(bench, config, ['archive'])
    const { rows, bytes } = await archiveFiles(folder, table)
    return bytes / rows
  }
  const checks = [
    atMost('bytes a candle', await bytesOfRow('candles'), 20, { decimals: 1 }),
    atMost('bytes a side of a book of 100 levels', (await bytesOfRow('order_books')) / 2, 90, { decimals: 1 }),
  ]
  await pool.query('truncate market.candles, market.order_books, recorder.archived_day')
  return checks
}

/** One day of many fills: memory of archiving it, and its time as a multiple of what COPY takes to give the same rows. */
export async function measureBigDay(bench: BenchDatabase, fills: number): Promise<Check[]> {
  const { pool } = bench.database
  console.log(`loading ${fills} fills of a day`)
  // A table that is not logged holds the same rows and takes twice as many a second.
  await pool.query('alter table market.fills set unlogged')
  await loadFills(pool, '2026-02-01', fills)
  await pool.query('vacuum analyze market.fills')
  const { folder, config } = await archiveOf(bench, 'day', 'fills')
  const before = await copySeconds(bench)
  const { seconds, peakMb } = await runWell(bench, config, ['archive'])
  const after = await copySeconds(bench)
  const { rows, bytes } = await archiveFiles(folder, 'fills')
  const verified = await runWell(bench, config, ['archive', 'verify', '--offline'])
  await pool.query('truncate market.fills, recorder.archived_day; alter table market.fills set logged')
  const copied = (before + after) / 2
  const times = [before, seconds, after].map((one) => `${one.toFixed(1)} s`).join(', ')
  const rates = [copied, seconds, verified.seconds].map((one) => Math.round(rows / one)).join(', ')
  return [
    check('day: rows archived, bytes a row', `${rows}, ${(bytes / rows).toFixed(1)}`, `${fills}`, rows === fills),
    atMost('day: memory of archive', peakMb, maxMb, { unit: 'MB' }),
    atMost('day: memory of archive verify', verified.peakMb, maxMb, { unit: 'MB' }),
    figure(
      'day: time as a multiple of COPY to stdout, read back included (COPY before, archive, COPY after)',
      `${(seconds / copied).toFixed(1)} (${times})`,
    ),
    figure('day: rows a second: COPY, archive, archive verify', rates),
  ]
}

/** An archive of one table in a folder of its own. */
async function archiveOf(bench: BenchDatabase, name: string, table: string) {
  const folder = join(bench.folder, name)
  const dataDir = join(bench.folder, `${name}-data`)
  const config = await configFile(bench.folder, name, { archive: { folder, tables: [table] }, database: { dataDir } })
  return { folder, config }
}

async function copySeconds({ database }: BenchDatabase): Promise<number> {
  const startedAt = performance.now()
  await database.pool.query('copy market.fills to stdout')
  return (performance.now() - startedAt) / 1000
}
