import { appendFile, mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checkOthers } from '../../../src/cli/doctor.js'
import { openDatabase } from '../../../src/db/database.js'
import { endSessionsInTheWay } from '../../../src/db/locks.js'
import { startEmbeddedPostgres } from '../../../src/server/embedded/embedded.js'
import { runProgram } from '../../support/program.js'

const settings = { fsync: 'off' }
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-roles-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function ask(url: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows.map((row) => Object.values(row)[0])
  } finally {
    await client.end()
  }
}

/** Connects once there is room: the session of a connection that was closed may not have ended yet. */
async function connected(url: string): Promise<pg.Client> {
  let client = new pg.Client(url)
  await expect
    .poll(async () => {
      client = new pg.Client(url)
      client.on('error', () => undefined)
      return client.connect().then(
        () => 'connected',
        (error: unknown) => (error as pg.DatabaseError).code,
      )
    })
    .toBe('connected')
  return client
}

const superusers = 'select rolname from pg_roles where rolsuper order by 1'
const forbidden = [
  "select pg_create_physical_replication_slot('mine')",
  "select lo_export(1, '/tmp/mine')",
  "select pg_read_file('../password')",
  "select pg_ls_dir('.')",
  "copy (select 1) to '/tmp/mine'",
  "copy (select 1) to program 'cat'",
  'alter system set fsync = off',
]

describe('the logins of a new embedded server', () => {
  let server: Awaited<ReturnType<typeof startEmbeddedPostgres>>
  let dataDir: string
  beforeAll(async () => {
    dataDir = join(folder, 'new')
    server = await startEmbeddedPostgres({ dataDir: join(dataDir, 'postgres'), settings })
  })
  afterAll(() => server.stop())

  it('are no superusers, and nobody can log in as the one that there is', async () => {
    expect(await ask(server.url, superusers)).toEqual(['postgres'])
    for (const url of [server.url, server.readUrl, server.pageDatabaseUrl]) {
      expect(await ask(url, 'select rolsuper from pg_roles where rolname = current_user')).toEqual([false])
      for (const statement of forbidden) {
        await expect(ask(url, statement), statement).rejects.toMatchObject({ code: '42501' })
      }
      const asSuperuser = new URL(url)
      asSuperuser.username = 'postgres'
      await expect(ask(asSuperuser.href, 'select 1')).rejects.toMatchObject({ code: '28P01' })
      asSuperuser.password = ''
      await expect(ask(asSuperuser.href, 'select 1')).rejects.toThrow(/password/)
    }
  })

  it('let people ask while the recorder has all its connections open', async () => {
    const clients: pg.Client[] = []
    try {
      for (const [url, count] of [
        [server.url, 40],
        [server.readUrl, 12],
      ] as const)
        for (let i = 0; i < count; i++) {
          clients.push(await connected(url))
        }
    } finally {
      await Promise.all(clients.map((client) => client.end()))
    }
    expect(clients).toHaveLength(52)
  })

  it('are one that owns the database and one that only reads', async () => {
    await ask(server.url, 'create schema market')
    await ask(server.url, 'create table market.mine (i integer)')
    for (const statement of [
      'create table mine (i integer)',
      'create temporary table mine (i integer)',
      'select lo_creat(-1)',
      'insert into market.mine values (1)',
      'create role mine',
    ]) {
      await expect(ask(server.readUrl, statement), statement).rejects.toMatchObject({ code: '42501' })
    }
    const other = new URL(server.readUrl)
    other.pathname = '/postgres'
    await expect(ask(other.href, 'select 1')).rejects.toMatchObject({ code: '42501' })
    await ask(server.url, 'drop schema market cascade')
  })

  it('leave the page its own, whatever an analyst does to hers', async () => {
    const held: pg.Client[] = []
    const asPage = (sql: string) => ask(server.pageDatabaseUrl, sql)
    try {
      while (held.length < 12) held.push(await connected(server.readUrl))
      await expect(ask(server.readUrl, 'select 1')).rejects.toMatchObject({ code: '53300' })
      expect(await asPage('select current_user')).toEqual(['page'])
      await held[0]?.query("alter role reader password 'mine'")
      await expect(held[0]?.query("alter role page password 'mine'")).rejects.toMatchObject({ code: '42501' })
    } finally {
      await Promise.all(held.map((client) => client.end()))
    }
    await expect(ask(server.readUrl, 'select 1')).rejects.toMatchObject({ code: '28P01' })
    expect(await asPage('select 1')).toEqual([1])
    await server.stop()
    server = await startEmbeddedPostgres({ dataDir: join(dataDir, 'postgres'), settings })
    expect(await ask(server.readUrl, 'select 1')).toEqual([1])
  })

  it('cannot keep the server from starting by changing their password in its first moment', async () => {
    await server.stop()
    const over = new AbortController()
    const attack = async () => {
      while (!over.signal.aborted) {
        const client = new pg.Client(server.readUrl)
        client.on('error', () => undefined)
        const ended = new Promise((resolve) => void client.once('end', resolve))
        await client
          .connect()
          .then(() => client.query('begin'))
          .then(() => client.query("alter role reader password 'mine'"))
          .then(() => ended)
          .catch(() => client.end().catch(() => undefined))
      }
    }
    let isOver = false
    void Promise.all(Array.from({ length: 4 }, attack)).then(() => (isOver = true))
    server = await startEmbeddedPostgres({ dataDir: join(dataDir, 'postgres'), settings })
    over.abort()
    await expect
      .poll(async () => {
        // One may just have logged in.
        await ask(server.url, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'reader'")
        return isOver
      })
      .toBe(true)
    expect(await ask(server.url, 'select 1')).toEqual([1])
  })

  it('do not keep a transaction open without being named', async () => {
    const database = openDatabase({ url: server.url, poolSize: 1 })
    const reader = await connected(server.readUrl)
    try {
      expect(await checkOthers(database.db, '0 s')).toEqual([])
      await reader.query('begin isolation level repeatable read')
      const { rows } = await reader.query<{ pid: number }>('select pg_backend_pid() as pid')
      expect(await checkOthers(database.db, '0 s')).toMatchObject([
        { verdict: 'warning', detail: expect.stringContaining(`sessions ${rows[0]?.pid} of reader in `) as string },
      ])
      expect(await checkOthers(database.db)).toEqual([])
    } finally {
      await Promise.all([reader.end(), database.close()])
    }
  })

  it('run what people ask as the one that reads', async () => {
    const query = (sql: string) => runProgram(['query', '--csv', '--data-dir', dataDir, sql])
    expect(await query('select current_user')).toMatchObject({ exitCode: 0, stdout: 'current_user\nreader\n' })
    const owner = new pg.Client({ connectionString: server.url })
    await owner.connect()
    const { rows } = await owner.query<{ pid: number }>('select pg_backend_pid() as pid')
    const pid = rows[0]?.pid ?? 0
    for (const statement of [
      "select pg_create_physical_replication_slot('mine')",
      "select lo_export(1, '/tmp/mine')",
      "select pg_read_file('../password')",
      `select pg_terminate_backend(${pid})`,
      "select set_config('role', 'recorder', false)",
      "select set_config('session_authorization', 'recorder', false)",
    ]) {
      const { exitCode, stderr } = await query(statement)
      expect([exitCode, stderr], statement).toEqual([1, expect.stringMatching(/permission denied/)])
    }
    await owner.end()
    for (const statement of [
      'explain analyze delete from market.fills',
      'explain (analyze) create table mine as select 1',
      'explain execute mine',
      'explain verbose declare c cursor for select 1',
    ]) {
      const { exitCode, stderr } = await query(statement)
      expect([exitCode, stderr], statement).toEqual([1, expect.stringMatching(/only one statement that reads/)])
    }
    for (const statement of [
      'explain select 1',
      'explain (costs off, analyze) select 1',
      'explain analyze verbose values (1)',
    ]) {
      expect((await query(statement)).exitCode, statement).toBe(0)
    }
  })

  it('end a query in time that has lifted its own limit', async () => {
    const lifted = "select set_config('statement_timeout', '0', true), pg_sleep(600)"
    const { exitCode, stderr } = await runProgram(['query', '--timeout', '1', '--data-dir', dataDir, lifted])
    expect([exitCode, stderr]).toEqual([1, expect.stringMatching(/canceling statement/)])
  })

  it('write nothing of what people ask to the log of the server', async () => {
    const marked = (level: string) => `do $$ begin raise ${level} 'mark of a reader'; end $$`
    const reader = await connected(server.readUrl)
    await reader.query(marked('log'))
    await expect(reader.query(marked('exception'))).rejects.toMatchObject({ code: 'P0001' })
    await expect(reader.query('set log_min_messages = log')).rejects.toMatchObject({ code: '42501' })
    await reader.end()
    expect(await readFile(join(dataDir, 'postgres', 'server.log'), 'utf8')).not.toMatch('mark of a reader')
  })

  it('bound the temporary files of whoever reads, and are ended by the recorder', async () => {
    await ask(server.url, "create role alice login password 'alice' in role market_reader")
    const own = new URL(server.readUrl)
    Object.assign(own, { username: 'alice', password: 'alice' })
    for (const url of [server.readUrl, server.pageDatabaseUrl, own.href]) {
      expect(await ask(url, 'show temp_file_limit')).toEqual(['4GB'])
      await expect(ask(url, 'set temp_file_limit = -1')).rejects.toMatchObject({ code: '42501' })
    }
    expect(await ask(server.url, 'show temp_file_limit')).toEqual(['-1'])
    const alice = await connected(own.href)
    const end = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'alice'"
    expect(await ask(server.url, end)).toEqual([true])
    await alice.end().catch(() => undefined)
  })

  it('end a query whose client is gone', async () => {
    const reader = new pg.Client({ connectionString: server.readUrl, application_name: 'gone' })
    reader.on('error', () => undefined)
    await reader.connect()
    const asked = reader.query('select pg_sleep(600)').catch(() => 'gone')
    const underWay = () => ask(server.url, "select state from pg_stat_activity where application_name = 'gone'")
    await expect.poll(underWay).toEqual(['active'])
    ;(reader as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
    await expect.poll(underWay, { timeout: 30_000 }).toEqual([])
    expect(await asked).toBe('gone')
  })

  it('refuse statements of others that keep a lock for each savepoint', async () => {
    for (const statement of [
      'grant execute on function pg_catalog.now() to public',
      'revoke execute on function pg_catalog.now() from reader',
      'alter default privileges grant select on tables to public',
      'drop owned by reader',
    ])
      await expect(ask(server.readUrl, statement), statement).rejects.toMatchObject({ code: '42501' })
    for (const statement of ['create schema mine', 'grant usage on schema mine to public', 'drop schema mine'])
      await ask(server.url, statement)
  })
})

it('a start gives the analysts their settings again, and a large log is moved while the server runs', async () => {
  const dataDir = join(folder, 'restored', 'postgres')
  let server = await startEmbeddedPostgres({ dataDir, settings })
  const set = "select setdatabase = 0, setconfig::text from pg_db_role_setting where setrole = 'reader'::regrole"
  const before = await ask(server.url, set)
  try {
    await ask(server.readUrl, "alter role reader in database recorder set statement_timeout = '1ms'")
    await ask(server.url, "alter role reader set idle_session_timeout = '1ms'")
    expect(await ask(server.url, set)).not.toEqual(before)
    await server.stop()
    server = await startEmbeddedPostgres({ dataDir, settings })
    expect(await ask(server.url, set)).toEqual(before)
    const log = join(dataDir, 'server.log')
    await appendFile(log, 'x'.repeat(10_000_001))
    await expect.poll(async () => (await stat(log)).size, { timeout: 20_000 }).toBeLessThan(1_000)
    expect((await stat(`${log}.1`)).size).toBeGreaterThan(10_000_000)
    await ask(server.url, 'select 1')
  } finally {
    await server.stop()
  }
}, 60_000)

describe('sessions that take all room for locks', () => {
  it('are ended and named by who finds none', async () => {
    const few = { ...settings, max_locks_per_transaction: '16' }
    const server = await startEmbeddedPostgres({ dataDir: join(folder, 'full', 'postgres'), settings: few })
    const database = openDatabase({ url: server.url, poolSize: 1 })
    const readers: pg.Client[] = []
    const each = (statement: string, first: number) =>
      `do $$ begin for i in ${first}..${first + 249} loop execute format('${statement}', i); end loop; end $$`
    const firsts = Array.from({ length: 10 }, (_, index) => index * 250)
    try {
      await ask(server.readUrl, 'select 1')
      const owner = await connected(server.url)
      await owner.query('create schema many')
      await owner.query('grant usage on schema many to market_reader')
      await owner.query('alter default privileges in schema many grant select on tables to market_reader')
      for (const first of firsts) await owner.query(each('create table many.t%s ()', first))
      await owner.end()
      await sql`select 1`.execute(database.db)
      // A failed statement gives up its own locks, so the room that it leaves is filled by one lock after the other.
      const lockAll = async (reader: pg.Client) => {
        const lock = async (statement: string) => {
          await reader.query('savepoint before')
          await reader.query(statement)
        }
        await reader.query('begin')
        for (const first of firsts)
          try {
            await lock(each('lock table many.t%s in access share mode', first))
          } catch {
            await reader.query('rollback to savepoint before')
            for (let i = first; i < first + 250; i++) await lock(`lock table many.t${i} in access share mode`)
          }
      }
      let full: unknown
      while (full === undefined && readers.length < 12) {
        const reader = await connected(server.readUrl)
        readers.push(reader)
        full = await lockAll(reader).catch((error: unknown) => error)
        if (full !== undefined) await reader.query('rollback to savepoint before')
      }
      expect(full).toMatchObject({ code: '53200' })
      const look = () => sql`select from pg_database`.execute(database.db)
      const failure: unknown = await look().catch((error: unknown) => error)
      expect(failure).toMatchObject({ code: '53200' })
      await endSessionsInTheWay(database.db, failure)
      expect(failure).toMatchObject({
        detail: expect.stringMatching(/^session .* holds \d+ locks and was ended/) as string,
      })
      await expect.poll(() => look().then(() => 'room', String)).toBe('room')
    } finally {
      await Promise.all([...readers.map((reader) => reader.end().catch(() => undefined)), database.close()])
      await server.stop()
    }
  })
})
