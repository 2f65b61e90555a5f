import type { RecorderDatabase } from '../../src/db/database.js'
import { detectServer } from '../../src/server/timescale/server.js'

/** Keeps the server's own schedules, which begin at once, from refreshing rollups while a test writes what they roll up. */
export async function stopSchedules({ db, pool }: RecorderDatabase): Promise<void> {
  if ((await detectServer(db)).kind !== 'timescale-community') return
  await pool.query('select _timescaledb_functions.stop_background_workers()')
}

/** Ends the schedules of a database and of its clones, but for those that are made anew: its rows are older than what they wait for. */
export async function endSchedules({ db, pool }: RecorderDatabase): Promise<void> {
  if ((await detectServer(db)).kind !== 'timescale-community') return
  await pool.query(`
    select public.alter_job(job_id, scheduled => false) from timescaledb_information.jobs
    where hypertable_schema in ('market', 'recorder')`)
}
