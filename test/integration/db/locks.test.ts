import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { endSessionsInTheWay, keepWayIn, lockSessionName, tryLock, withSessionLock } from '../../../src/db/locks.js'
import { systemClock } from '../../../src/runtime/clock.js'
import type { Logger } from '../../../src/runtime/logger.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { login } from '../../support/login.js'

let test: TestDatabase
const clients: pg.Client[] = []
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(async () => {
  for (const client of clients) await client.end()
  await test?.drop()
})

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: test.url })
  clients.push(client)
  await client.connect()
  return client
}

const rename = (client: pg.Client) =>
  client.query(`select set_config('application_name', $1, false)`, [lockSessionName('test')])

it('a lock is held against a session that asked before its holder had a name', async () => {
  const name = randomBytes(4).toString('hex')
  const [holder, other, watcher] = [await connect(), await connect(), await connect()]
  const lock = (client: pg.Client) => tryLock((text, values) => client.query(text, [...values]), name)
  await rename(other)
  const { rows } = await other.query<{ pid: number }>('select pg_backend_pid() as pid')
  await holder.query('begin')
  await holder.query('insert into recorder.lock (name) values ($1)', [name])
  const asked = lock(other)
  await expect
    .poll(async () => {
      const waits = `select from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'`
      return (await watcher.query(waits, [rows[0]?.pid])).rowCount
    })
    .toBe(1)
  await rename(holder)
  expect(await lock(holder)).toBe(true)
  await holder.query('commit')
  expect(await asked).toBe(false)
  expect(await lock(other)).toBe(false)
  await holder.end()
  await expect.poll(() => lock(other)).toBe(true)
})

it('work that loses its connection fails with its own error', async () => {
  const name = randomBytes(4).toString('hex')
  const failure = new Error('why the work failed')
  const work = withSessionLock(test.database.db, name, async (connection) => {
    await sql`select pg_terminate_backend(pg_backend_pid())`.execute(connection).catch(() => undefined)
    throw failure
  })
  await expect(work).rejects.toBe(failure)
  // The connection is gone, and with it the lock.
  await expect(withSessionLock(test.database.db, name, async () => 'done')).resolves.toBe('done')
})

it('a reader who waits for a schema, before which no chunk can be made, is ended', async () => {
  const reader = await login(test, 'market_reader')
  await test.database.pool.query(`grant ${reader.user} to current_user with inherit true`)
  const holder = await reader.database.pool.connect()
  try {
    await holder.query(`begin; select pg_get_object_address('schema', '{market}', '{}')`)
    const refused = reader.database.pool.query('drop schema market').catch(String)
    const failure = Object.assign(new Error('a store took too long'), { code: '57014' })
    await expect
      .poll(async () => {
        await endSessionsInTheWay(test.database.db, failure)
        return failure
      })
      .toMatchObject({ detail: expect.stringMatching(/ waits for a lock .* and was ended$/) as string })
    expect(await refused).toMatch(/terminat/)
  } finally {
    await holder.query('rollback')
    holder.release()
    await reader.remove()
  }
})

it('a session that keeps others out and may not be ended is named once, and again after ten minutes', async () => {
  const [watching, reader] = [await login(test, 'market_reader'), await login(test, 'market_reader')]
  const [holder, waiter] = [await reader.database.pool.connect(), await reader.database.pool.connect()]
  await watching.database.pool.query('select')
  let ms = 0
  let passes = 0
  const sleep = async () => {
    await new Promise((resolve) => setTimeout(resolve, 10))
    passes++
  }
  const passed = async () => {
    const first = passes
    await expect.poll(() => passes).toBeGreaterThan(first + 2)
  }
  const clock = { ...systemClock, monotonicMs: () => ms, sleep }
  const lines: string[] = []
  const ending = new AbortController()
  const logger = { warn: (line: string) => lines.push(line) } as unknown as Logger
  const keeping = keepWayIn(watching.database.db, clock, logger, ending.signal)
  try {
    const name = new URL(test.url).pathname.slice(1)
    await holder.query(`begin; select pg_get_object_address('database', '{${name}}', '{}')`)
    const refused = waiter.query(`alter database ${name} rename to other`).catch(String)
    await expect
      .poll(() => lines)
      .toEqual([expect.stringMatching(/ waits for a lock .*, and this login may not end it$/)])
    await passed()
    expect(lines).toHaveLength(1)
    ms = 600_000
    await passed()
    expect(lines).toHaveLength(2)
    await holder.query('rollback')
    await refused
  } finally {
    ending.abort()
    await keeping
    holder.release()
    waiter.release()
    await Promise.all([watching.remove(), reader.remove()])
  }
})
