import { ListMultipartUploadsCommand } from '@aws-sdk/client-s3'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { engine, runEngine } from '../../test/support/engines.js'
import { type HttpFault, slowDown, startHttpFaults } from '../../test/support/httpFaults.js'
import { s3Environment, startS3 } from '../../test/support/s3.js'
import { type Check, check, none } from '../tools/checks.js'
import { type BenchDatabase, withDatabase } from '../tools/database.js'
import { configFile } from '../tools/recorder.js'
import { loadFills } from './data.js'
import { problemsOf, run } from './runs.js'

const days = 28

/** Where an archive is, and how its tables are read. */
interface Place {
  readonly kind: 'folder' | 'bucket'
  /** Options of `archive`. */
  readonly options: object
  /** PyIceberg's options for the place. */
  readonly reader: Readonly<Record<string, string>>
}

/** Days are archived in a folder and removed from the database by a process that is killed at random moments. */
export async function killInFolder(bench: BenchDatabase, kills: number): Promise<Check[]> {
  return killAgainAndAgain(bench, kills, {
    kind: 'folder',
    options: { folder: join(bench.folder, 'killed') },
    reader: {},
  })
}

/** Days are archived in a bucket of a real S3 server, which is busy, loses responses and cuts connections. */
export async function killInBucket(bench: BenchDatabase, kills: number): Promise<Check[]> {
  const server = await startS3()
  const faults = await startHttpFaults(server.url)
  try {
    const bucket = await server.makeBucket()
    let refused = 0
    const draw = stormyFaults()
    faults.decide = () => {
      const fault = draw()
      if (fault !== null) refused++
      return fault
    }
    const checks = await killAgainAndAgain(bench, kills, {
      kind: 'bucket',
      options: { bucket, endpoint: faults.url, forcePathStyle: true },
      reader: {
        's3.endpoint': server.url,
        // Three seconds by default, which a busy machine exceeds.
        's3.request-timeout': '120',
        's3.access-key-id': s3Environment.AWS_ACCESS_KEY_ID,
        's3.secret-access-key': s3Environment.AWS_SECRET_ACCESS_KEY,
      },
    })
    const { Uploads = [] } = await server.client.send(new ListMultipartUploadsCommand({ Bucket: bucket }))
    const requests = faults.requests.length
    return [
      ...checks,
      none('bucket: unfinished uploads, in the end', Uploads.length),
      check('bucket: requests that were made to fail', `${refused} of ${requests}`, 'many', refused > 20),
    ]
  } finally {
    await faults.close()
    await server.close()
  }
}

/** Storms of a second, and single failures between them. */
function stormyFaults(): () => HttpFault | null {
  let stormUntil = 0
  return () => {
    const now = performance.now()
    if (Math.random() < 0.01) stormUntil = now + 1_000
    if (now < stormUntil) return slowDown
    return ([slowDown, 'lose', 'cut', 'refuse'] as const)[Math.floor(Math.random() * 60)] ?? null
  }
}

async function killAgainAndAgain(bench: BenchDatabase, kills: number, place: Place): Promise<Check[]> {
  const { kind } = place
  await loadDays(bench, kind)
  const config = await configFile(bench.folder, `killed-${kind}`, {
    archive: { ...place.options, tables: ['fills'] },
    storage: { fills: { retentionDays: 1 } },
    database: { dataDir: join(bench.folder, `killed-${kind}-data`) },
  })
  const before = await sumsOf(bench)
  const stop = join(bench.folder, `stop-${kind}`)
  const watched = watch({ url: bench.url, options: place.reader, stop })
  const { killed, problems } = await killRuns(bench, config, kills, kind === 'bucket' ? 10_000 : 4_000)
  await run(bench, config, ['archive', '--remove'])
  await run(bench, config, ['archive', 'prune'])
  const { output: orphans } = await run(bench, config, ['archive', 'prune', '--dry-run'])
  const last = await problemsOf(bench, config)
  await writeFile(stop, '')
  const read = await watched
  const left = await countFills(bench)
  const isSame = await isSameWhenRestored(bench, config, before)
  return [
    check(`${kind}: runs that were killed`, `${killed} of ${kills}`, 'most', killed > kills / 2),
    none(`${kind}: visible days that were not whole`, problems),
    none(`${kind}: problems that verify finds, in the end`, last.length),
    check(`${kind}: what a second one would remove`, orphans.trim(), 'nothing', /\b0 files/.test(orphans)),
    ...(read === null ? [] : readChecks(kind, read)),
    none(`${kind}: rows left in the database, in the end`, left),
    check(`${kind}: all rows equal when restored`, isSame ? 'yes' : 'no', 'yes', isSame),
  ]
}

async function loadDays({ database: { pool } }: BenchDatabase, kind: Place['kind']): Promise<void> {
  await pool.query('truncate market.fills, recorder.archived_day, recorder.changed_day, iceberg.iceberg_tables')
  for (let day = 1; day <= days; day++) await loadFills(pool, `2026-01-${String(day).padStart(2, '0')}`, 5_000)
  // One that is uploaded in parts.
  if (kind === 'bucket') await loadFills(pool, '2026-01-29', 400_000)
}

async function sumsOf({ database: { pool } }: BenchDatabase): Promise<string> {
  const sums = 'select count(*), sum(price * size), sum(hashtext(exec_id || ts)) from market.fills'
  return JSON.stringify((await pool.query(sums)).rows)
}

async function countFills({ database: { pool } }: BenchDatabase): Promise<number> {
  return Number((await pool.query<{ count: number }>('select count(*) from market.fills')).rows[0]?.count)
}

/** Kills runs at random moments, up to `maxWaitMs` after a start of one second. Counts days that are not whole. */
async function killRuns(bench: BenchDatabase, config: string, kills: number, maxWaitMs: number) {
  const { seconds: startSeconds } = await run(bench, config, ['archive', '--dry-run'])
  let [killed, problems] = [0, 0]
  for (let i = 0; i < kills; i++) {
    const killAfterMs = startSeconds * (700 + Math.random() * maxWaitMs)
    const { isKilled } = await run(bench, config, ['archive', '--remove'], killAfterMs)
    if (isKilled) killed++
    problems += (await problemsOf(bench, config, '--offline')).length
  }
  return { killed, problems }
}

/** Restores everything into a database of its own. */
async function isSameWhenRestored(bench: BenchDatabase, config: string, before: string): Promise<boolean> {
  return withDatabase(async (other) => {
    await run(bench, config, ['archive', 'restore', '--into', other.url])
    return (await sumsOf(other)) === before
  })
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

function readChecks(kind: string, { snapshots, reads, unreadable }: Watched): Check[] {
  const failures = unreadable.slice(0, 3).join('; ') || '0'
  return [
    check(`${kind}: snapshots, and how often PyIceberg read them`, `${snapshots}, ${reads}`, 'many', reads > 20),
    check(`${kind}: reads that failed`, failures, '0', unreadable.length === 0),
  ]
}
