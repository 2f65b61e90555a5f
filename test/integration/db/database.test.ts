import { createServer } from 'node:net'
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openDatabase } from '../../../src/db/database.js'
import { describeDatabaseError, traitsOf } from '../../../src/db/databaseError.js'
import { runReadOnlyQuery } from '../../support/readOnlyQuery.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())

async function failureOf(url: string): Promise<unknown> {
  const database = openDatabase({ url, poolSize: 1 })
  try {
    return await sql`select 1`.execute(database.db).catch((error: unknown) => error)
  } finally {
    await database.close()
  }
}
function changed(change: (url: URL) => void): string {
  const url = new URL(test.url)
  change(url)
  return url.href
}

describe('a connection', () => {
  it('gives values as they are: exact decimals, times in milliseconds, whole numbers', async () => {
    const { rows } = await sql`
      select 1.10::numeric as n, array[1.10, 12345678901234567890.1234567890]::numeric[] as ns, 42::bigint as i,
        timestamptz '2026-01-15 12:00:00.123+00' as t, null::timestamptz as none, 'infinity'::timestamptz as never,
        array['a,b', '"']::text[] as texts`.execute(test.database.db)
    expect(rows[0]).toEqual({
      n: '1.10',
      ns: ['1.10', '12345678901234567890.1234567890'],
      i: 42,
      t: Date.UTC(2026, 0, 15, 12, 0, 0, 123),
      none: null,
      never: Infinity,
      texts: ['a,b', '"'],
    })
  })

  it('reads and shows values in the same forms, whatever server, database, URL and environment set', async () => {
    const { db } = test.database
    await sql`do $$ begin
      execute format('alter database %I set datestyle to German', current_database());
      execute format('alter database %I set extra_float_digits to -3', current_database());
      execute format('alter database %I set timezone to %L', current_database(), 'Asia/Tokyo');
    end $$`.execute(db)
    const wanted = { datestyle: 'ISO, MDY', intervalstyle: 'postgres', timezone: 'UTC' }
    const before = process.env['PGOPTIONS']
    process.env['PGOPTIONS'] = '-c datestyle=German -c intervalstyle=iso_8601 -c timezone=Asia/Tokyo'
    const askingForMore = changed((url) => url.searchParams.set('options', '-c datestyle=SQL -c work_mem=5MB'))
    try {
      for (const isReadOnly of [false, true]) {
        const database = openDatabase({ url: askingForMore, poolSize: 1, isReadOnly })
        try {
          const { rows } = await sql`
            select current_setting('datestyle') as datestyle, current_setting('intervalstyle') as intervalstyle,
              current_setting('timezone') as timezone, current_setting('work_mem') as memory,
              current_setting('default_transaction_read_only') as "readOnly",
              (float8 '0.1' + float8 '0.2')::text as sum, timestamptz '2026-01-15 12:00:00.123+00' as t`.execute(
            database.db,
          )
          const readOnly = isReadOnly ? 'on' : 'off'
          expect(rows).toEqual([
            { ...wanted, memory: '5MB', readOnly, sum: '0.30000000000000004', t: Date.UTC(2026, 0, 15, 12, 0, 0, 123) },
          ])
        } finally {
          await database.close()
        }
      }
    } finally {
      if (before === undefined) delete process.env['PGOPTIONS']
      else process.env['PGOPTIONS'] = before
    }
  })

  it('that breaks while idle or at work does not end the process, and is replaced', async () => {
    const lost: Error[] = []
    const database = openDatabase({ url: test.url, poolSize: 1 })
    database.pool.on('error', (error) => lost.push(error))
    try {
      const own = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(database.db)
      await sql`select pg_terminate_backend(${own.rows[0]?.pid})`.execute(test.database.db)
      await expect.poll(() => lost.length).toBe(1)
      const error: unknown = await sql`select pg_terminate_backend(pg_backend_pid())`
        .execute(database.db)
        .catch((caught: unknown) => caught)
      expect(traitsOf(error).isPassing).toBe(true)
      // The query hears of its end before the connection does, so the next one may get the same connection.
      const one = () => sql`select 1 as one`.execute(database.db)
      const answer = await one().catch((caught: unknown) =>
        traitsOf(caught).isPassing ? one() : Promise.reject(caught as Error),
      )
      expect(answer.rows).toEqual([{ one: 1 }])
    } finally {
      await database.close()
    }
  })

  it('ends a statement that takes too long', async () => {
    const database = openDatabase({ url: test.url, statementTimeoutMs: 50 })
    try {
      const error: unknown = await sql`select pg_sleep(10)`.execute(database.db).catch((caught: unknown) => caught)
      expect(describeDatabaseError(error)).toMatch(/statement timeout; .*raise the timeout$/)
    } finally {
      await database.close()
    }
  })
})

describe('errors', () => {
  it('say in one line what failed and what to do, without the password', async () => {
    const { password } = new URL(test.url)
    // A port that nothing listens on: taken a moment ago, and given back.
    const port = await new Promise<number>((resolve) => {
      const probe = createServer().listen(0, '127.0.0.1', () => {
        const address = probe.address()
        probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 1))
      })
    })
    const refused = await failureOf(changed((url) => (url.port = String(port))))
    expect(describeDatabaseError(refused)).toMatch(/^database: .*127\.0\.0\.1:\d+.*; nothing listens there/)
    expect(traitsOf(refused).isPassing).toBe(true)
    const wrong = await failureOf(changed((url) => (url.password = 'not-the-password')))
    expect(describeDatabaseError(wrong)).toMatch(
      /; check user and password in DATABASE_URL, or in DATABASE_READ_URL where that is set$/,
    )
    expect(traitsOf(wrong).isPassing).toBe(false)
    const unknown = await failureOf(changed((url) => (url.pathname = '/nowhere')))
    expect(describeDatabaseError(unknown)).toMatch(/"nowhere" does not exist; create it/)
    const noTls = await failureOf(changed((url) => url.searchParams.set('sslmode', 'require')))
    expect(String(noTls)).toMatch(/SSL/)
    for (const error of [refused, wrong, unknown, noTls]) {
      const line = describeDatabaseError(error)
      expect(line).not.toContain('\n')
      if (password !== '') expect(line).not.toContain(password)
      expect(line).not.toContain('not-the-password')
    }
  })

  it('of a row are told from others', async () => {
    const { db } = test.database
    const data: unknown = await sql`select 'x'::numeric`.execute(db).catch((error: unknown) => error)
    expect([traitsOf(data).isOfRow, traitsOf(data).isPassing]).toEqual([true, false])
    const syntax: unknown = await sql`selec`.execute(db).catch((error: unknown) => error)
    expect([traitsOf(syntax).isOfRow, traitsOf(syntax).isPassing]).toEqual([false, false])
  })
})

describe('a read-only query', () => {
  const run = (text: string, options = {}) => runReadOnlyQuery(test.database, text, { timeoutMs: 5_000, ...options })

  it('gives exact text, names and types', async () => {
    const result = await run(`-- a comment
      select 1.10::numeric as n, null::text as none, array[1.0]::numeric[] as list, true as yes; `)
    expect(result).toEqual({
      columns: [
        { name: 'n', type: 'numeric' },
        { name: 'none', type: 'text' },
        { name: 'list', type: '_numeric' },
        { name: 'yes', type: 'bool' },
      ],
      rows: [['1.10', null, '{1.0}', 't']],
      isTruncated: false,
    })
    expect((await run('with x as (values (1), (2)) select * from x')).rows).toEqual([['1'], ['2']])
    expect((await run('show server_encoding')).rows).toEqual([['UTF8']])
    expect((await run('explain select 1')).rows.length).toBeGreaterThan(0)
    expect((await run('select from market.fills')).rows).toEqual([])
  })

  it('names every type as the server does, whether the driver knows it or not', async () => {
    const { rows } = await run(`select oid::int8, typname::text from pg_type where typtype = 'b' and typname !~ '^_'`)
    const known = rows.filter(([oid]) => Object.values<number>(pg.types.builtins).includes(Number(oid)))
    expect(known.length).toBeGreaterThan(40)
    const columns = [...known, ...rows.slice(0, 20)].map(([, name]) => `null::"${name}"`)
    const result = await run(`select ${columns.join(', ')}`)
    expect(result.columns.map(({ type }) => type)).toEqual([...known, ...rows.slice(0, 20)].map(([, name]) => name))
  })

  it('stops at the wanted number of rows', async () => {
    const result = await run('select * from generate_series(1, 1000000)', { maxRows: 2 })
    expect(result).toMatchObject({ rows: [['1'], ['2']], isTruncated: true })
    expect(await run('select 1', { maxRows: 1 })).toMatchObject({ rows: [['1']], isTruncated: false })
  })

  it('cannot write, whatever it is called', async () => {
    const attempts = [
      'delete from market.fills',
      'create table market.t ()',
      "copy (select 1) to '/tmp/x'",
      'commit',
      'set transaction read write',
      'with gone as (delete from market.fills returning 1) select * from gone',
      'explain analyze delete from market.fills',
      'select 1; delete from market.fills',
      'select 1; commit; delete from market.fills',
      "select nextval('recorder.ledger_id_seq')",
      '/* select */ drop table market.fills',
    ]
    for (const attempt of attempts) await expect(run(attempt), attempt).rejects.toThrow()
    expect((await run('select count(*) from market.fills')).rows).toEqual([['0']])
  })

  it('leaves nothing in the session that others get', async () => {
    await run("select set_config('work_mem', '1MB', false)")
    expect((await run('show work_mem')).rows).not.toEqual([['1MB']])
  })

  it('is cancelled when it takes too long', async () => {
    await expect(run('select pg_sleep(10)', { timeoutMs: 50 })).rejects.toMatchObject({ code: '57014' })
  })
})
