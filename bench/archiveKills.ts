import { ListMultipartUploadsCommand } from '@aws-sdk/client-s3'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type HttpFault, slowDown, startHttpFaults } from '../test/support/httpFaults.js'
import { engine, runEngine } from '../test/support/engines.js'
import { s3Environment, startS3 } from '../test/support/s3.js'
import { loadFills } from './archiveData.js'
import { type ArchiveBench, bucketOptions, configure, problemsOf, run } from './archiveRuns.js'
import type { Check } from './figures.js'

const days = 28

/** Days are archived in a folder and removed from the database by a process that is killed at random moments. */
export async function killInFolder(bench: ArchiveBench, kills: number): Promise<Check[]> {
  return killAgainAndAgain(bench, kills, `folder: '${join(bench.root, 'killed')}'`, 'folder', {})
}

/** The same in a bucket of a real S3 server, which is busy, loses responses and cuts connections. */
export async function killInBucket(bench: ArchiveBench, kills: number): Promise<Check[]> {
  const server = await startS3()
  const faults = await startHttpFaults(server.url)
  try {
    const bucket = await server.makeBucket()
    let stormUntil = 0
    let refused = 0
    faults.decide = () => {
      const now = performance.now()
      // Storms of a second, and something that goes wrong now and then between them.
      if (Math.random() < 0.01) stormUntil = now + 1_000
      const fault: HttpFault | null =
        now < stormUntil
          ? slowDown
          : (([slowDown, 'lose', 'cut', 'refuse'] as const)[Math.floor(Math.random() * 60)] ?? null)
      if (fault !== null) refused++
      return fault
    }
    const checks = await killAgainAndAgain(bench, kills, bucketOptions(bucket, faults.url), 'bucket', {
      's3.endpoint': server.url,
      's3.access-key-id': s3Environment.AWS_ACCESS_KEY_ID,
      's3.secret-access-key': s3Environment.AWS_SECRET_ACCESS_KEY,
    })
    const { Uploads = [] } = await server.client.send(new ListMultipartUploadsCommand({ Bucket: bucket }))
    return [
      ...checks,
      {
        what: 'bucket: unfinished uploads, in the end',
        measured: `${Uploads.length}`,
        target: '0',
        isMet: Uploads.length === 0,
      },
      {
        what: 'bucket: requests that were made to fail',
        measured: `${refused} of ${faults.requests.length}`,
        target: 'many',
        isMet: refused > 20,
      },
    ]
  } finally {
    await faults.close()
    await server.close()
  }
}

async function killAgainAndAgain(
  bench: ArchiveBench,
  kills: number,
  place: string,
  kind: 'folder' | 'bucket',
  reader: Readonly<Record<string, string>>,
): Promise<Check[]> {
  const { pool } = bench.database
  await pool.query('truncate market.fills, recorder.archived_day')
  for (let day = 1; day <= days; day++) await loadFills(pool, `2026-01-${String(day).padStart(2, '0')}`, 5_000)
  // One that is uploaded in parts.
  if (kind === 'bucket') await loadFills(pool, '2026-01-29', 400_000)
  const config = await configure(
    bench,
    `killed-${kind}`,
    `archive: { ${place}, tables: [fills], iceberg: true }\nstorage: { fills: { retentionDays: 1 } }`,
  )
  const sums = async () =>
    JSON.stringify(
      (await pool.query(`select count(*), sum(price * size), sum(hashtext(exec_id || ts)) from market.fills`)).rows,
    )
  const before = await sums()
  const stop = join(bench.root, `stop-${kind}`)
  const watched = watch({ url: bench.url, options: reader, stop })
  const { seconds: startSeconds } = await run(bench, config, ['archive', '--dry-run'])
  let problems = 0
  let killed = 0
  for (let i = 0; i < kills; i++) {
    const killAfterMs = startSeconds * (700 + Math.random() * (kind === 'bucket' ? 10_000 : 4_000))
    const { isKilled } = await run(bench, config, ['archive', '--remove'], { killAfterMs })
    if (isKilled) killed++
    problems += (await problemsOf(bench, config)).filter(
      (problem) => !problem.includes('belongs to no manifest'),
    ).length
  }
  await run(bench, config, ['archive', '--remove'])
  const inTables = await tableProblems(bench, config)
  await run(bench, config, ['archive', 'tidy'])
  const { output: orphans } = await run(bench, config, ['archive', 'tidy', '--dry-run'])
  const last = [...(await problemsOf(bench, config)), ...(await tableProblems(bench, config))]
  await writeFile(stop, '')
  const read = await watched
  const left = Number((await pool.query<{ count: number }>('select count(*) from market.fills')).rows[0]?.count)
  await run(bench, config, ['archive', 'restore'])
  const isSame = (await sums()) === before
  const check = (what: string, measured: string, target: string, isMet: boolean): Check => ({
    what: `${kind}: ${what}`,
    measured,
    target,
    isMet,
  })
  return [
    check('runs that were killed', `${killed} of ${kills}`, 'most', killed > kills / 2),
    check('visible days that were not whole', `${problems}`, '0', problems === 0),
    check('files that belong to nothing, in the end', `${last.length}`, '0', last.length === 0),
    check('tables that differ from the manifests, before tidy', `${inTables.length}`, '0', inTables.length === 0),
    check('what a second tidy would remove', orphans.trim(), 'nothing', /\b0 files/.test(orphans)),
    ...(read === null
      ? []
      : [
          check(
            'snapshots, and how often PyIceberg read them',
            `${read.snapshots}, ${read.reads}`,
            'many',
            read.reads > 20,
          ),
          check('reads that failed', read.unreadable.slice(0, 3).join('; ') || '0', '0', read.unreadable.length === 0),
        ]),
    check('rows left in the database, in the end', `${left}`, '0', left === 0),
    check('all rows equal when restored', isSame ? 'yes' : 'no', 'yes', isSame),
  ]
}

interface Watched {
  readonly reads: number
  readonly snapshots: number
  readonly unreadable: readonly string[]
}

/** Reads all snapshots again and again while archivers are killed; null without PyIceberg. */
async function watch(request: object): Promise<Watched | null> {
  const pyiceberg = engine('pyiceberg')
  return pyiceberg.python === null ? null : ((await runEngine(pyiceberg, 'watchTables.py', request)) as Watched)
}

/** What verify says of the tables, which needs the database. */
async function tableProblems(bench: ArchiveBench, config: string): Promise<string[]> {
  const { output } = await run(bench, config, ['archive', 'verify', '--json'])
  return (JSON.parse(output) as { table: string; problems: string[] }[])
    .flatMap(({ problems }) => problems)
    .filter((problem) => problem.includes('the table'))
}
