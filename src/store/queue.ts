import type { Kysely } from 'kysely'
import { sql } from 'kysely'
import pg from 'pg'
import PgBoss from 'pg-boss'
import type { Logger } from '../runtime/logger.js'
import { connectionString } from './db/database.js'
import { describeDatabaseError } from './db/databaseError.js'
import { lockNames } from './db/locks/names.js'
import { holds, lockSessionName, type RunQuery, unlock, waitForLock } from './db/locks/sessionLock.js'
import { openQueueConnection } from './queueConnection.js'
import type { Database } from './db/schema.js'

/**
 * created ─▶ active ─▶ completed
 *    ▲          │
 *    └─ retry ◀─┴─▶ failed (when given back too often)
 *
 * A job is active as long as its worker lives: the worker holds a lock for it (locks/) on a connection of its own, so that
 * the database itself knows when the worker has died. Whoever works on the queue takes up what is left behind.
 */
export type JobState = 'created' | 'retry' | 'active' | 'completed' | 'cancelled' | 'failed'

export interface NewJob<Data> {
  readonly data: Data
  /** Higher goes first. */
  readonly priority: number
  /** Two waiting jobs never have the same. */
  readonly key: string
}

export interface TakenJob<Data> {
  readonly id: string
  readonly data: Data
}

export interface JobStatus<Data, Outcome> {
  readonly id: string
  readonly state: JobState
  readonly data: Data
  /** What the worker left: its outcome, or why the job was given back. */
  readonly output: Outcome | null
}

export interface JobQueue<Data extends object, Outcome extends object> {
  /** Adds jobs and returns the ids of those that were added. */
  add(jobs: readonly NewJob<Data>[]): Promise<string[]>
  /** Jobs that are not done: waiting or being worked on. */
  pending(): Promise<JobStatus<Data, Outcome>[]>
  statuses(ids: readonly string[]): Promise<JobStatus<Data, Outcome>[]>
  /** Jobs that are not done, and those done in the last hours; at most so many. */
  recent(most: number): Promise<JobStatus<Data, Outcome>[]>
  /** The most urgent waiting job, now this process's. */
  take(): Promise<TakenJob<Data> | null>
  complete(id: string, outcome: Outcome): Promise<void>
  /** Puts a job back to be taken again after some seconds. */
  giveBack(id: string, reason: string): Promise<void>
  /** Puts jobs back whose worker has died; returns how many. */
  rescue(): Promise<number>
  /** Runs `work` while no other process does: between looking at what is queued and adding to it, nobody else may add. */
  alone<Result>(work: () => Promise<Result>): Promise<Result>
  close(): Promise<void>
}

export interface QueueOptions {
  readonly url: string
  readonly logger: Logger
}

const schema = 'recorder_queue'
const jobTable = sql.table(`${schema}.job`)
const archiveTable = sql.table(`${schema}.archive`)
/** A worker takes the lock right after the job. */
const lockGraceSeconds = 10

const jobOptions = {
  // Failures that cannot heal are outcomes; what is given back is expected to succeed later.
  retryLimit: 1000,
  retryDelay: 5,
  // The lock tells of dead workers much sooner; this is for workers that hang.
  expireInSeconds: 4 * 3600,
  retentionDays: 60,
}

/** Opens the queue, and creates it in the database when it is not there. */
export async function openQueue<Data extends object, Outcome extends object>(
  db: Kysely<Database>,
  name: string,
  { url, logger }: QueueOptions,
): Promise<JobQueue<Data, Outcome>> {
  const connection = openQueueConnection(url, (error) => logger.warn(`queue: ${error.message}`))
  const boss = new PgBoss({
    db: connection,
    schema,
    schedule: false,
    maintenanceIntervalSeconds: 60,
  })
  boss.on('error', (error) => logger.warn(`queue: ${error.message}`))
  try {
    await boss.start()
    await boss.createQueue(name, { name, policy: 'short' })
  } catch (error) {
    await boss.stop({ graceful: false })
    await connection.close()
    throw error
  }
  const locks = new JobLocks(url, logger)

  const select = (from: typeof jobTable) => sql`
    select id, state::text as state, data, output from ${from} where name = ${name}`

  return {
    async add(jobs) {
      const rows = jobs.map(({ data, priority, key }) => {
        const id = crypto.randomUUID()
        return { id, name, data, priority, singletonKey: key, ...jobOptions }
      })
      // The statement takes a JSON text; very large ones are split.
      for (let i = 0; i < rows.length; i += 1000) await boss.insert(rows.slice(i, i + 1000).map(forInsert))
      const added = await sql<{ id: string }>`
        select id from ${jobTable} where name = ${name} and id = any (${rows.map(({ id }) => id)}::uuid[])`.execute(db)
      return added.rows.map(({ id }) => id)
    },
    async pending() {
      const { rows } = await sql<JobStatus<Data, Outcome>>`
        ${select(jobTable)} and state <= 'active' order by priority desc, created_on, id`.execute(db)
      return rows
    },
    async statuses(ids) {
      const wanted = sql`and id = any (${[...ids]}::uuid[])`
      const { rows } = await sql<JobStatus<Data, Outcome>>`
        ${select(jobTable)} ${wanted} union all ${select(archiveTable)} ${wanted}`.execute(db)
      return rows
    },
    async recent(most) {
      const { rows } = await sql<JobStatus<Data, Outcome>>`
        ${select(jobTable)} order by state, priority desc limit ${most}`.execute(db)
      return rows
    },
    async take() {
      const [job] = await boss.fetch<Data>(name, { batchSize: 1 })
      if (job === undefined) return null
      await locks.hold(job.id)
      return { id: job.id, data: job.data }
    },
    async complete(id, outcome) {
      // Whatever the database says to it: without its lock, a job that is still active is taken up again.
      try {
        await boss.complete(name, id, outcome)
      } finally {
        await locks.release(id)
      }
    },
    async giveBack(id, reason) {
      try {
        await boss.fail(name, id, { reason })
      } finally {
        await locks.release(id)
      }
    },
    async rescue() {
      // The job's state is checked again when it is given back.
      const { rows } = await sql<{ id: string }>`
        select id from ${jobTable}
        where name = ${name} and state = 'active' and started_on < now() - make_interval(secs => ${lockGraceSeconds})
          and not exists (
            select from recorder.lock l where l.name = ${lockNames.job('')} || id::text and ${sql.raw(holds('l'))})
        `.execute(db)
      for (const { id } of rows) await boss.fail(name, id, { reason: 'its worker died' })
      return rows.length
    },
    alone: (work) => locks.withPlanLock(work),
    async close() {
      await locks.close()
      await boss.stop({ graceful: false })
      await connection.close()
    },
  }
}

/** The bulk statement has no field for days. */
function forInsert({ retentionDays, ...job }: { readonly retentionDays: number } & PgBoss.JobInsert): PgBoss.JobInsert {
  return { ...job, keepUntil: new Date(Date.now() + retentionDays * 86_400_000) }
}

/** The locks of the jobs that this process works on, all on one connection; taken anew when it breaks. */
class JobLocks {
  readonly #url: string
  readonly #logger: Logger
  readonly #held = new Set<string>()
  #connection: Promise<pg.Client> | null = null
  #turn: Promise<unknown> = Promise.resolve()
  #isClosed = false

  constructor(url: string, logger: Logger) {
    this.#url = url
    this.#logger = logger
  }

  async hold(id: string): Promise<void> {
    this.#held.add(id)
    await waitForLock(this.#run, lockNames.job(id))
  }

  async release(id: string): Promise<void> {
    if (!this.#held.delete(id) || this.#connection === null) return
    // A connection that has broken has released it.
    await unlock(this.#run, lockNames.job(id)).catch(() => undefined)
  }

  async withPlanLock<Result>(work: () => Promise<Result>): Promise<Result> {
    await waitForLock(this.#run, lockNames.plan)
    try {
      return await work()
    } finally {
      await unlock(this.#run, lockNames.plan).catch(() => undefined)
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const client = await this.#connection?.catch(() => undefined)
    await client?.end().catch(() => undefined)
  }

  /** One after the other: a connection does one thing at a time. */
  readonly #run: RunQuery = (text, values) => {
    const turn = this.#turn.then(async () => (await this.#connected()).query<pg.QueryResultRow>(text, [...values]))
    this.#turn = turn.catch(() => undefined)
    return turn
  }

  #connected(): Promise<pg.Client> {
    this.#connection ??= this.#connect()
    return this.#connection
  }

  async #connect(): Promise<pg.Client> {
    const client = new pg.Client({
      connectionString: connectionString(this.#url),
      application_name: lockSessionName('job locks'),
      keepAlive: true,
    })
    let isBroken = false
    // A connection that is ended by the server tells so more than once.
    client.on('error', (error) => {
      if (isBroken || this.#isClosed) return
      isBroken = true
      this.#connection = null
      this.#logger.warn(`queue: the connection that marks jobs as being worked on broke: ${error.message}`)
      void this.#holdAgain()
    })
    try {
      await client.connect()
    } catch (error) {
      this.#connection = null
      throw error
    }
    return client
  }

  /** Never rejects: jobs whose lock cannot be had again are taken up by somebody else, which costs requests and no more. */
  async #holdAgain(): Promise<void> {
    try {
      for (const id of this.#held) await waitForLock(this.#run, lockNames.job(id))
    } catch (error) {
      this.#logger.warn(`queue: ${describeDatabaseError(error)}`)
    }
  }
}
