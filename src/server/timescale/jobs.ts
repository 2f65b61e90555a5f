import { type Kysely, sql } from 'kysely'
import type { Database } from '../../db/schema.js'
import { counted } from '../../runtime/text.js'
import { detectServer } from './server.js'

/** How the server's own jobs fare, which convert chunks and refresh rollups. */
export interface Jobs {
  readonly count: number
  /** Number of jobs whose last run failed or broke off. */
  readonly failed: number
  /** Number of jobs that have been due for half an hour and do not run. */
  readonly late: number
  /** Number of background workers that the server can run at once, for everything. */
  readonly workers: number
  /** True if these versions of PostgreSQL and TimescaleDB are known to fail every job. */
  readonly isFailingPair: boolean
}

/** With these, TimescaleDB's jobs do their work and then fail at their end. Seen in November 2026. */
const failingPair = { serverVersion: '17.12', timescaleVersion: '2.29.2' } as const

/**
 * Reads how the jobs of the recorder's tables fare; null where the server has no such jobs. Any login may read it. Only
 * the owner of a job sees its state in `job_stats`, so running jobs are found by the name of their session.
 */
export async function readJobs(db: Kysely<Database>): Promise<Jobs | null> {
  const { kind, serverVersion, timescaleVersion } = await detectServer(db)
  if (kind !== 'timescale-community') return null
  const { rows } = await sql<Omit<Jobs, 'isFailingPair'>>`
    select count(*)::int as count,
      (count(*) filter (where s.last_run_status = 'Failed' or s.last_run_status is null
        and isfinite(s.last_run_started_at) and s.last_run_started_at < now() - interval '1 minute' and session.pid is null))::int as failed,
      (count(*) filter (where session.pid is null and isfinite(coalesce(j.next_start, j.initial_start))
        and coalesce(j.next_start, j.initial_start) < now() - interval '30 minutes'))::int as late,
      current_setting('max_worker_processes')::int as workers
    from timescaledb_information.jobs j
    left join timescaledb_information.job_stats s on s.job_id = j.job_id
    left join lateral (
      select a.pid from pg_stat_activity a
      where a.datname = current_database() and a.application_name = j.application_name limit 1
    ) as session on true
    where j.hypertable_schema in ('market', 'recorder')`.execute(db)
  const [jobs] = rows
  if (jobs === undefined || jobs.count === 0) return null
  const isFailingPair = serverVersion === failingPair.serverVersion && timescaleVersion === failingPair.timescaleVersion
  return { ...jobs, isFailingPair }
}

/** Says in a sentence which jobs do not work, what that harms and what to do; null if all work. */
export function jobsProblem({ count, failed, late, isFailingPair }: Jobs): string | null {
  const all = counted(count, 'job')
  const found = [
    ...(failed > 0 ? [`${failed} of ${all} of TimescaleDB failed at their last run`] : []),
    ...(late > 0 ? [`${late} of ${all} of TimescaleDB have been due for half an hour and do not run`] : []),
  ]
  const { serverVersion, timescaleVersion } = failingPair
  const pair = `PostgreSQL ${serverVersion} with TimescaleDB ${timescaleVersion}`
  if (isFailingPair) found.push(`${pair} fails each job at its end; use another minor version of either`)
  if (found.length === 0) return null
  const todo = [
    ...(failed > 0 && !isFailingPair ? ['timescaledb_information.job_errors says why'] : []),
    ...(late > 0 ? ['raise max_worker_processes, or see whether the background workers were stopped'] : []),
  ]
  return [`${found.join('; ')}: chunks may stay unconverted, and rollups old`, ...todo].join('; ')
}
