import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { lockSessionName, tryLock, withSessionLock } from '../../../src/db/locks.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

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
