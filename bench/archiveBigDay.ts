import { join } from 'node:path'
import { archiveFiles, loadFills } from './archiveData.js'
import { type ArchiveBench, configure, runWell } from './archiveRuns.js'
import type { Check } from './figures.js'

const maxMb = 300

/** One day of many fills: what archiving it takes of memory, and of time as a multiple of what COPY takes to give the same rows. */
export async function benchBigDay(bench: ArchiveBench, fills: number): Promise<Check[]> {
  const { pool } = bench.database
  console.log(`loading ${fills} fills of a day`)
  // Of a table that is not logged the rows are the same, and there are twice as many a second of them.
  await pool.query('alter table market.fills set unlogged')
  await loadFills(pool, '2026-02-01', fills)
  await pool.query('vacuum analyze market.fills')
  const folder = join(bench.root, 'day')
  const config = await configure(bench, 'day', `archive: { folder: '${folder}', tables: [fills] }`)
  console.log('archiving them, and giving them to COPY before and after')
  const before = await copySeconds(bench)
  const { seconds, peakMb } = await runWell(bench, config, ['archive'])
  const after = await copySeconds(bench)
  const { rows, bytes } = await archiveFiles(folder)
  console.log(
    `archived ${rows} rows in ${seconds.toFixed(0)} s with ${peakMb} MB; COPY took ${before.toFixed(0)} s and ${after.toFixed(0)} s`,
  )
  const verified = await runWell(bench, config, ['archive', 'verify', '--offline'])
  await pool.query('truncate market.fills, recorder.archived_day; alter table market.fills set logged')
  const copied = (before + after) / 2
  return [
    {
      what: 'day: rows archived, bytes a row',
      measured: `${rows}, ${(bytes / rows).toFixed(1)}`,
      target: `${fills}`,
      isMet: rows === fills,
    },
    { what: 'day: memory of archive', measured: `${peakMb} MB`, target: `≤ ${maxMb} MB`, isMet: peakMb <= maxMb },
    {
      what: 'day: memory of archive verify',
      measured: `${verified.peakMb} MB`,
      target: `≤ ${maxMb} MB`,
      isMet: verified.peakMb <= maxMb,
    },
    {
      what: 'day: time as a multiple of COPY to stdout, read back included (COPY before, archive, COPY after)',
      measured: `${(seconds / copied).toFixed(1)} (${[before, seconds, after].map((one) => `${one.toFixed(1)} s`).join(', ')})`,
      target: 'none',
      isMet: true,
    },
    {
      what: 'day: rows a second: COPY, archive, archive verify',
      measured: [copied, seconds, verified.seconds].map((one) => Math.round(rows / one)).join(', '),
      target: 'none',
      isMet: true,
    },
  ]
}

async function copySeconds({ database }: ArchiveBench): Promise<number> {
  const startedAt = performance.now()
  await database.pool.query('copy market.fills to stdout')
  return (performance.now() - startedAt) / 1000
}
