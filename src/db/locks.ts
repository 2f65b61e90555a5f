import { CompiledQuery, type Kysely, type RawBuilder, sql } from 'kysely'
import { bounds } from '../market/bounds.js'
import { isLockTableFull, traitsOf } from './databaseError.js'
import { callFunction, type RunQuery } from './database.js'
import type { Database } from './schema.js'
import { hostname } from 'node:os'
import { randomName } from '../runtime/randomness.js'
import { type Clock, sleepFor, systemClock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'

/**
 * All locks that the recorder takes in the database. They are rows or tables of schema `recorder`. Taking one needs the
 * right to write there, so a login that only reads cannot hold up the recording. Any login could take an advisory lock.
 *
 * | lock                     | who takes it                           | what holds it      | for how long     |
 * | ------------------------ | -------------------------------------- | ------------------ | ---------------- |
 * | a row of recorder.slice  | the worker that fetches a slice        | a lease in the row | 20 s, extended   |
 * | reconcile                | start and migrate, changing features   | a session          | seconds to hours |
 * | archive                  | who writes or restores the archive     | a session          | minutes to hours |
 * | rollups                  | who refreshes rollups or drops candles | a session          | seconds to hours |
 * | versions TABLE           | the writer of a list with versions     | a transaction      | milliseconds     |
 * | wants                    | who adds a want or takes a slice       | a transaction      | milliseconds     |
 * | a row of recorder.ledger | the writer of fills of an instrument   | a transaction      | milliseconds     |
 * | recorder.migration       | start and migrate, changing the schema | a transaction      | seconds          |
 */
export const lockNames = {
  reconcile: 'reconcile',
  archive: 'archive',
  rollups: 'rollups',
  versions: (table: string) => `versions ${table}`,
  wants: 'wants',
} as const

/** Takes a lock that other transactions wait for. It ends with the transaction that `db` is in. */
export async function lockInTransaction(db: Kysely<Database>, name: string): Promise<void> {
  const row = db.selectFrom('recorder.lock').select('name').where('name', '=', name).forUpdate()
  if ((await row.executeTakeFirst()) !== undefined) return
  await db
    .insertInto('recorder.lock')
    .values({ name })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  await row.execute()
}

interface SessionInTheWay {
  readonly pid: number
  readonly login: number
  readonly database: number
  /** True for a session in this database, and for one that waits for a lock of the whole server. */
  readonly own: boolean
  readonly what: string
}

/**
 * Ends sessions of other logins in this database that keep the recording waiting, if `error` may come from one. Adds to
 * the error which sessions these are, and those of other databases. They hold so many locks that the server has no room
 * for more, or they wait for a lock that stops writers. Those who only read never get it, but whoever comes later waits
 * behind them: some statements ask for their lock before the server looks at their rights.
 */
export async function endSessionsInTheWay(db: Kysely<Database>, error: unknown): Promise<void> {
  const { isLocked, isCancelled } = traitsOf(error)
  const isFull = isLockTableFull(error)
  if (!isFull && !isLocked && !isCancelled) return
  const lines = await endSessions(db, await (isFull ? holders(db) : waiting(db, stopsWriters)))
  if (error instanceof Error && lines.length > 0) Object.assign(error, { detail: lines.join('; ') })
}

/** Ends those of the sessions that are in this database. Resolves to a line for each. */
async function endSessions(db: Kysely<Database>, found: readonly SessionInTheWay[]): Promise<string[]> {
  const lines: string[] = []
  for (const session of found) {
    const { pid, own, what } = session
    // Others are not the recorder's to end.
    const ended = own && (await callFunction<boolean>(db, 'pg_terminate_backend', pid).catch(() => false))
    const outcome = ended ? ' and was ended' : own ? ', and this login may not end it' : ''
    lines.push(`session ${await nameSession(db, session)} ${what}${outcome}`)
  }
  return lines
}

/** Less than half of the time that a connection may take, and than that after which a pool closes an idle one. */
const watchEveryMs = 4_000
const sayAgainMs = 600_000

/**
 * Ends sessions that keep new connections waiting. No new connection could do it, so this keeps one of `db` open. Names
 * a session that it may not end again after ten minutes.
 */
export async function keepWayIn(
  db: Kysely<Database>,
  clock: Clock,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  const saidMs = new Map<string, number>()
  while (await sleepFor(clock, watchEveryMs, signal)) {
    const nowMs = clock.monotonicMs()
    for (const [line, ms] of saidMs) if (nowMs - ms >= sayAgainMs) saidMs.delete(line)
    const found = await waiting(db, stopsConnections).catch(() => [])
    for (const line of await endSessions(db, found)) {
      if (saidMs.has(line)) continue
      saidMs.set(line, nowMs)
      logger.warn(line)
    }
  }
}

/** Names are in tables of the whole server, which cannot be read while there is no room for a lock. */
async function nameSession(db: Kysely<Database>, { pid, login, database }: SessionInTheWay): Promise<string> {
  const named = sql<{ who: string }>`
    select format('%s of %I in %I', ${pid}::int, pg_get_userbyid(${login}), datname) as who
    from pg_database where oid = ${database}`
  return named.execute(db).then(
    ({ rows }) => rows[0]?.who ?? `${pid}`,
    () => `${pid} of the login with oid ${login}`,
  )
}

const sessions = sql`(select others.pid, others.usesysid::int8 as login, others.datid::int8 as database, mine.datid as here,
  others.datid = mine.datid as own
  from pg_stat_get_activity(null) as others, pg_stat_get_activity(pg_backend_pid()) as mine
  where others.usesysid <> mine.usesysid) as session`

/** Reads functions alone: a table of the whole server needs a lock in the table that is full. */
async function holders(db: Kysely<Database>): Promise<SessionInTheWay[]> {
  const { rows } = await sql<SessionInTheWay>`
    select session.pid, login, session.database, own, format('holds %s locks', count(*)) as what
    from pg_lock_status() as lock join ${sessions} on session.pid = lock.pid
    group by session.pid, login, session.database, own having count(*) > ${sql.lit(bounds.locksOfSession)}`.execute(db)
  return rows
}

const stopsWriters = sql`(locktype = 'relation' or (locktype = 'object' and lock.database <> 0))`
/**
 * A new connection locks the database and reads the catalog. Its tables have oids below 16384 on every server, and
 * pg_database, whose rows are databases, has 1262.
 */
const stopsConnections = sql`(locktype = 'object' and classid = 1262 and objid = here
  or locktype = 'relation' and relation < 16384 and lock.database in (0, here))`

/** Reads no table, because such a wait may be for one of the catalog. */
async function waiting(db: Kysely<Database>, condition: RawBuilder<unknown>): Promise<SessionInTheWay[]> {
  const { rows } = await sql<SessionInTheWay>`
    select session.pid, login, session.database, own or lock.database = 0 as own,
      'waits for a lock that its login may not take' as what
    from pg_lock_status() as lock join ${sessions} on session.pid = lock.pid
    where not granted and mode not in ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock') and ${condition}
      and not pg_has_role(login::oid, 'pg_database_owner', 'usage')
      and pg_has_role(login::oid, to_regrole('recorder_writer'), 'usage') is not true`.execute(db)
  return rows
}

/**
 * Names sessions of other logins with a transaction that is older, as far as this login may see them. While they last,
 * VACUUM removes no row on the whole server, and the server may run out of ids for transactions.
 */
export async function openTransactions(db: Kysely<Database>, olderThan: string): Promise<string[]> {
  const { rows } = await sql<{ who: string }>`
    select format('%s of %I in %I', pid, usename, datname) as who from pg_stat_activity
    where usename <> session_user and xact_start < now() - ${olderThan}::interval order by xact_start`.execute(db)
  return rows.map(({ who }) => who)
}

/** Returns a unique name for a session. The server cuts names off at 63 characters. */
export function lockSessionName(purpose: string): string {
  return `market-recorder ${purpose} ${randomName(6)}`
}

/**
 * A condition on a row of recorder.lock that is true while the session of the row exists. A transaction remembers the
 * sessions that it saw first. Those that took the lock while it waited for the row are seen only after it forgets them.
 */
const holds = (row: string) => `case when pg_stat_clear_snapshot() is not null then exists (
  select from pg_stat_activity s
  where s.pid = ${row}.pid and s.usesysid = ${row}.login and s.application_name = ${row}.session) end`

/**
 * Takes a lock that one session at a time holds. Resolves to false if another session holds it.
 *
 * Such locks are rows of recorder.lock that name the session that holds them. A row whose session is gone does not
 * count. When a process dies, the server ends its session at once.
 *
 * A session is identified by the number of its backend, its login and a name of its own. The server shows these to
 * every login, and no session can show the login of another one. Therefore only the session itself can keep its lock.
 * Only a login that may write to the table can take one. No transaction stays open meanwhile. `select … for update`
 * would hold the row as well. But an open transaction with an id keeps VACUUM from removing rows on the whole server.
 */
export async function tryLock(query: RunQuery, name: string): Promise<boolean> {
  const { rows } = await query(
    `insert into recorder.lock as known (name, pid, login, session, holder, taken_at)
     select $1, pid, usesysid, application_name, $2, now() from pg_stat_activity where pid = pg_backend_pid()
     on conflict (name) do update
       set pid = excluded.pid, login = excluded.login, session = excluded.session, holder = excluded.holder,
         taken_at = excluded.taken_at
       where not ${holds('known')}
     returning true`,
    [name, `${hostname()} ${process.pid}`],
  )
  return rows.length > 0
}

/** Releases a lock of this session. A lock of another session is left as it is. */
async function unlock(query: RunQuery, name: string): Promise<void> {
  await query('delete from recorder.lock where name = $1 and pid = pg_backend_pid()', [name])
}

const askEveryMs = 200

/** Runs the statements of this module on a connection, or on any connection of a pool. */
function queryOn(db: Kysely<Database>): RunQuery {
  return (text, values) => db.executeQuery(CompiledQuery.raw(text, [...values]))
}

interface LockOptions {
  /** Error for a lock that another session holds. Without it, the call waits for that session. */
  readonly refusal?: () => Error
  /** Ends the wait for the lock. */
  readonly signal?: AbortSignal | undefined
}

/** Runs `work` on a connection that holds a lock. Cannot run in a transaction. */
export async function withSessionLock<Result>(
  db: Kysely<Database>,
  name: string,
  work: (connection: Kysely<Database>) => Promise<Result>,
  options?: LockOptions,
): Promise<Result> {
  return db.connection().execute(async (connection) => {
    const setting = 'application_name'
    const before = await callFunction<string>(connection, 'current_setting', setting)
    const rename = (to: string) => callFunction(connection, 'set_config', setting, to, false)
    await rename(lockSessionName(name))
    return andThen(
      () => withFurtherLock(connection, name, () => work(connection), options),
      () => rename(before),
    )
  })
}

/** Runs `work` while the session of `withSessionLock` holds one more lock. */
export async function withFurtherLock<Result>(
  connection: Kysely<Database>,
  name: string,
  work: () => Promise<Result>,
  { refusal, signal }: LockOptions = {},
): Promise<Result> {
  const query = queryOn(connection)
  while (!(await tryLock(query, name))) {
    if (refusal !== undefined) throw refusal()
    await systemClock.sleep(askEveryMs, signal)
  }
  return andThen(work, () => unlock(query, name))
}

/** Ends with `end`, also after a failure of `work`. If the connection broke, both fail, and `work` knows why. */
async function andThen<Result>(work: () => Promise<Result>, end: () => Promise<unknown>): Promise<Result> {
  let result: Result
  try {
    result = await work()
  } catch (error) {
    await end().catch(() => undefined)
    throw error
  }
  await end()
  return result
}
