import { join } from 'node:path'
import { archivedTableNames } from '../src/market/archivedTable.js'
import type { RecorderDatabase } from '../src/db/database.js'
import { migrateToLatest } from '../src/db/migrate.js'
import { startS3 } from '../test/support/s3.js'
import { digests, loadMarket } from './archiveMarket.js'
import { type ArchiveBench, bucketOptions, configure, problemsOf, runWell } from './archiveRuns.js'
import { createDatabase } from './databases.js'
import type { Check } from './figures.js'

/**
 * Days of all tables are archived to a folder and a bucket, the database is emptied, each archive is restored into a new one, and
 * archived again from there: rows, proof and certificates have to be the same.
 */
export async function benchDays(bench: ArchiveBench, days: number): Promise<Check[]> {
  // What is proven of them reaches beyond the fifth.
  if (days < 6) throw new Error('--days must be at least 6')
  const { pool } = bench.database
  const server = await startS3()
  try {
    console.log(`loading ${days} days of all tables`)
    await loadMarket(pool, days)
    const before = await digests(pool, archivedTableNames)
    for (const [table, figures] of Object.entries(before)) console.log(`  ${table}: ${figures.split(' ')[0]} rows`)
    const places = {
      folder: `folder: '${join(bench.root, 'days')}'`,
      bucket: bucketOptions(await server.makeBucket(), server.url),
    }
    const configs = new Map<string, string>()
    const checks: Check[] = []
    for (const [kind, place] of Object.entries(places)) {
      const config = await configure(bench, `days-${kind}`, `archive: { ${place} }`)
      configs.set(kind, config)
      await pool.query('truncate recorder.archived_day')
      const { seconds, peakMb } = await runWell(bench, config, ['archive'])
      checks.push({
        what: `${kind}: archived`,
        measured: `${seconds.toFixed(0)} s, ${peakMb} MB`,
        target: '≤ 300 MB',
        isMet: peakMb <= 300,
      })
      const problems = await problemsOf(bench, config)
      checks.push({
        what: `${kind}: problems found by verify`,
        measured: `${problems.length}`,
        target: '0',
        isMet: problems.length === 0,
      })
    }
    await emptyDatabase(bench.database)
    const certificates: string[] = []
    for (const [kind, config] of configs) {
      const certificate = await certificateOf(bench, config, days)
      const other = await newDatabase(bench, `restored_${kind}`)
      try {
        const { seconds } = await runWell(other, config, ['archive', 'restore'])
        const after = await digests(other.database.pool, archivedTableNames)
        const different = Object.keys(before).filter((table) => before[table] !== after[table])
        checks.push({
          what: `${kind}: tables that differ when restored into a new database (${seconds.toFixed(0)} s)`,
          measured: different.length === 0 ? '0' : different.join(', '),
          target: '0',
          isMet: different.length === 0,
        })
        const again = await configure(
          bench,
          `again-${kind}`,
          `archive: { folder: '${join(bench.root, `again-${kind}`)}' }`,
        )
        await other.database.pool.query('truncate recorder.archived_day')
        await runWell(other, again, ['archive'])
        certificates.push(certificate, await certificateOf(other, again, days))
      } finally {
        await other.database.close()
      }
    }
    const isSame = certificates.every((certificate) => certificate === certificates[0])
    checks.push({
      what: `certificates of folder, bucket, and what was restored from them (${certificates[0]?.length ?? 0} characters)`,
      measured: isSame ? 'equal' : 'different',
      target: 'equal',
      isMet: isSame && certificates.length === 4,
    })
    return checks
  } finally {
    await server.close()
  }
}

async function certificateOf(bench: ArchiveBench, config: string, days: number): Promise<string> {
  const to = new Date(Date.UTC(2026, 0, 1 + days)).toISOString().slice(0, 10)
  // Tables that are kept whole stand under the day on which they were archived, which is not the same for all.
  const byDay = archivedTableNames.slice(0, 5)
  const { output } = await runWell(bench, config, [
    'archive',
    'certify',
    '--from',
    '2026-01-01',
    '--to',
    to,
    '--table',
    ...byDay,
  ])
  return output
}

async function emptyDatabase({ pool }: RecorderDatabase): Promise<void> {
  const tables = archivedTableNames.map((name) => `market.${name}`).join(', ')
  await pool.query(`truncate ${tables}, recorder.coverage, recorder.empty_range, recorder.gap, recorder.no_trade,
    recorder.candle_revision, recorder.restatement, recorder.archived_day`)
}

async function newDatabase(bench: ArchiveBench, name: string): Promise<ArchiveBench> {
  const created = await createDatabase(bench.url, name)
  await migrateToLatest(created.database)
  return { ...bench, ...created }
}
