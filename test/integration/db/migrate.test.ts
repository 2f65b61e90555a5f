import { readdirSync } from 'node:fs'
import { sql } from 'kysely'
import { afterEach, describe, expect, it } from 'vitest'
import { instrumentFields } from '../../../src/market/instrument.js'
import { openDatabase } from '../../../src/db/database.js'
import { describeDatabaseError, traitsOf } from '../../../src/db/databaseError.js'
import { migrateToLatest, pendingMigrations } from '../../../src/db/migrate.js'
import { countRows } from '../../../src/ledger/read/overview.js'
import { marketTables } from '../../../src/market/stream.js'
import { packageVersion } from '../../../src/runtime/process.js'
import { snakeCase } from '../../../src/db/columns.js'
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../../support/database.js'

const open: TestDatabase[] = []
async function emptyDatabase(): Promise<TestDatabase> {
  const created = await createEmptyDatabase()
  open.push(created)
  return created
}
async function migratedDatabase(): Promise<TestDatabase> {
  const created = await createTestDatabase()
  open.push(created)
  return created
}
afterEach(async () => {
  for (const database of open.splice(0)) await database.drop()
})

/** Every numbered file: one that is not in the program's list would never be applied. The functions come after them. */
const numbered = readdirSync(new URL('../../../migrations', import.meta.url))
  .filter((file) => /^\d{4}_\w+\.ts$/.test(file))
  .map((file) => file.replace('.ts', ''))
  .toSorted()
const ownFunctions: unknown = expect.stringMatching(/^functions \d+\.\d+\.\d+ \w{16}$/)
const all = [...numbered, ownFunctions]

describe('migrations', () => {
  it('are applied to an empty database once', async () => {
    const { database } = await emptyDatabase()
    expect(await pendingMigrations(database)).toEqual(all)
    expect((await migrateToLatest(database)).applied).toEqual(all)
    expect(await pendingMigrations(database)).toEqual([])
    expect((await migrateToLatest(database)).applied).toEqual([])
    expect(Object.values(await countRows(database.db))).toEqual(marketTables.map(() => 0))
  })

  it('can be run by several processes at once', async () => {
    const { url } = await emptyDatabase()
    const databases = Array.from({ length: 8 }, () => openDatabase({ url, poolSize: 1 }))
    try {
      // Connected beforehand, so that all of them begin in the same moment.
      await Promise.all(databases.map(({ db }) => sql`select 1`.execute(db)))
      const results = await Promise.all(databases.map((database) => migrateToLatest(database)))
      expect(results.flatMap(({ applied }) => applied).toSorted()).toEqual(all)
    } finally {
      await Promise.all(databases.map((database) => database.close()))
    }
  })

  it('refuse a database that cannot hold every symbol', async () => {
    for (const encoding of ['SQL_ASCII', 'LATIN1']) {
      const other = await createEmptyDatabase(encoding)
      try {
        const advice = new RegExp(`encoding ${encoding}.*createdb --encoding=UTF8`)
        await expect(migrateToLatest(other.database)).rejects.toThrow(advice)
        await expect(pendingMigrations(other.database)).rejects.toThrow(advice)
      } finally {
        await other.drop()
      }
    }
  })

  it('refuse a database that is newer than the program', async () => {
    const { database } = await migratedDatabase()
    await sql`insert into recorder.migration (name, timestamp) values ('9999_future', 'now')`.execute(database.db)
    await expect(migrateToLatest(database)).rejects.toThrow(/newer market-recorder.*9999_future.*upgrade/)
    await expect(pendingMigrations(database)).rejects.toThrow(/newer market-recorder/)
  })

  it('replace functions that differ, and drop those that are gone', async () => {
    const { database } = await migratedDatabase()
    const definitions = async () => {
      const { rows } = await database.pool.query<{ text: string }>(
        `select pg_get_functiondef(oid) as text from pg_proc
          where pronamespace in ('market'::regnamespace, 'recorder'::regnamespace) order by oid::regprocedure::text`,
      )
      return rows.map(({ text }) => text)
    }
    const made = await definitions()
    expect(made.length).toBeGreaterThan(40)
    // An older version of one has other parameters, one has another body, and one is no longer there.
    await database.pool.query(`
      drop function recorder.turn_gaps;
      create function recorder.turn_gaps(of_stream text) returns integer language sql as 'select 1';
      create function recorder.was_there() returns integer language sql as 'select 1';
      create or replace function market.spread_bps(best_bid numeric, best_ask numeric) returns numeric
        language sql as 'select 1.0';
      create view market.of_a_user as select market.spread_bps(1, 2) as bps;
      update recorder.migration set name = 'functions 0.0.9 0123456789abcdef' where name like 'functions %'`)
    expect(await pendingMigrations(database)).toEqual([ownFunctions])
    expect((await migrateToLatest(database)).applied).toEqual([ownFunctions])
    expect(await definitions()).toEqual(made)
    expect(await pendingMigrations(database)).toEqual([])
    const { rows } = await sql`select name from recorder.migration where name like 'functions %'`.execute(database.db)
    expect(rows).toEqual([{ name: ownFunctions }])
  })

  it('refuse functions of a newer program, and replace others of the own version', async () => {
    const { database } = await migratedDatabase()
    const note = (name: string) =>
      sql`update recorder.migration set name = ${name} where name like 'functions %'`.execute(database.db)
    await note('functions 999.0.0 0123456789abcdef')
    await expect(migrateToLatest(database)).rejects.toThrow(/newer market-recorder.*functions 999.*upgrade/)
    await note(`functions ${packageVersion()} 0123456789abcdef`)
    expect((await migrateToLatest(database)).applied).toEqual([ownFunctions])
  })

  const advice = /before the first release.*archive, or export.*archive restore/
  it('refuse a database from before the first release, and say how its data is brought along', async () => {
    const { database } = await migratedDatabase()
    await sql`insert into recorder.migration (name, timestamp) values ('0001_vocabulary', 'then')`.execute(database.db)
    await expect(migrateToLatest(database)).rejects.toThrow(advice)
    await expect(pendingMigrations(database)).rejects.toThrow(advice)
  })

  it('refuse a database from before claims had evidence, and leave it as it is', async () => {
    const { database } = await migratedDatabase()
    await sql`
      alter table recorder.ledger add column judged_at timestamptz;
      delete from recorder.migration where name = '0011_earlier' or name like 'functions %'`.execute(database.db)
    await expect(migrateToLatest(database)).rejects.toThrow(advice)
    expect(await pendingMigrations(database)).toEqual(['0011_earlier', ownFunctions])
  })

  it('leave nothing behind when one fails', async () => {
    const { database } = await emptyDatabase()
    await sql`create schema market; create table market.fills ()`.execute(database.db)
    await expect(migrateToLatest(database)).rejects.toThrow(/0002_market_data.*nothing was changed.*fills/)
    await sql`drop table market.fills`.execute(database.db)
    expect((await migrateToLatest(database)).applied).toEqual(all)
  })

  it('are tried again after the server has ended their session', async () => {
    const { database } = await emptyDatabase()
    const other = await database.pool.connect()
    await other.query('begin')
    await other.query('create schema market')
    const migrated = migrateToLatest(database).catch((error: unknown) => error)
    const end = () =>
      database.pool.query<{ pid: number }>(
        `select pid, pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'`,
      )
    await expect.poll(async () => (await end()).rows.length).toBe(1)
    expect(traitsOf(await migrated).isAway).toBe(true)
    await other.query('rollback')
    other.release()
    expect((await migrateToLatest(database)).applied).toEqual(all)
  })

  it('need no right to create roles', async () => {
    const { database, url } = await emptyDatabase()
    const name = `limited_${Math.random().toString(36).slice(2)}`
    await sql`create role ${sql.id(name)} login password 'secret'`.execute(database.db)
    const limitedUrl = new URL(url)
    await sql`grant create on database ${sql.id(limitedUrl.pathname.slice(1))} to ${sql.id(name)}`.execute(database.db)
    limitedUrl.username = name
    limitedUrl.password = 'secret'
    const limited = openDatabase({ url: limitedUrl.href })
    try {
      expect((await migrateToLatest(limited)).applied).toEqual(all)
    } finally {
      await limited.close()
      await sql`grant ${sql.id(name)} to current_user; drop owned by ${sql.id(name)}; drop role ${sql.id(name)}`.execute(
        database.db,
      )
    }
  })
})

describe('the schema', () => {
  it('has a comment on every relation and column', async () => {
    const { database } = await migratedDatabase()
    const { rows } = await sql<{ missing: string }>`
      select format('%s.%s%s', n.nspname, c.relname, '.' || a.attname) as missing
      from pg_class c
      join pg_namespace n on n.oid = c.relnamespace
      join lateral (
        select null as attname, 0 as attnum
        union all
        select attname, attnum from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped
      ) a on true
      where n.nspname in ('market', 'recorder', 'iceberg') and c.relkind in ('r', 'p', 'v', 'm')
        and col_description(c.oid, a.attnum) is null
        and (a.attnum > 0 or obj_description(c.oid, 'pg_class') is null)
      order by 1`.execute(database.db)
    expect(rows.map(({ missing }) => missing)).toEqual([])
  })

  it('has a column for every specified field of an instrument', async () => {
    const { database } = await migratedDatabase()
    for (const table of ['instruments', 'instrument_history']) {
      const { rows } = await sql<{ name: string }>`
        select column_name as name from information_schema.columns
        where table_schema = 'market' and table_name = ${table}`.execute(database.db)
      const fields = Object.keys(instrumentFields).map((field) => snakeCase(field))
      expect(rows.map(({ name }) => name)).toEqual(expect.arrayContaining(fields))
    }
  })

  it('begins every relation of schema market with category and symbol', async () => {
    const { database } = await migratedDatabase()
    const { rows } = await sql<{ relation: string; first: string }>`
      select table_name as relation, string_agg(column_name, ', ' order by ordinal_position) as first
      from information_schema.columns
      where table_schema = 'market' and ordinal_position <= 2 group by 1 order by 1`.execute(database.db)
    expect(rows.filter(({ first }) => first !== 'category, symbol')).toEqual([])
    expect(rows.map(({ relation }) => relation)).toEqual(
      [
        ...marketTables,
        'latest_tickers',
        'order_book_levels',
        'rpi_order_book_levels',
        'coverage',
        'gaps',
        'no_trade',
        'restatements',
        'candle_revisions',
        'rejected_rows',
        'ohlcv_5m',
        'ohlcv_15m',
        'ohlcv_1h',
        'ohlcv_4h',
        'ohlcv_1d',
      ].toSorted(),
    )
  })

  it('lets market_reader read the market and nothing else, and recorder_writer write', async () => {
    const { database } = await migratedDatabase()
    await database.db.connection().execute(async (connection) => {
      await sql`set role market_reader`.execute(connection)
      await sql`select from market.latest_tickers`.execute(connection)
      await sql`select from market.gaps`.execute(connection)
      const forbidden = [sql`select from recorder.ledger`, sql`delete from market.fills`]
      for (const statement of forbidden) {
        const error: unknown = await statement.execute(connection).catch((caught: unknown) => caught)
        expect(describeDatabaseError(error)).toMatch(/permission denied.*grant it/)
      }
      await sql`set role recorder_writer`.execute(connection)
      await sql`delete from market.fills`.execute(connection)
      await sql`reset role`.execute(connection)
    })
  })
})
