import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { describeDatabaseError } from '../../../src/db/databaseError.js'
import { openDatabase } from '../../../src/db/database.js'
import { storeBatch } from '../../../src/ledger/storeBatches.js'
import { storeFills } from '../../../src/ledger/storeFills.js'
import { type Lease, acquireLease } from '../../../src/lease/lease.js'
import { recordInstruments, recordRpiSymbols } from '../../../src/ledger/instruments.js'
import { lockSessionName, tryLock } from '../../../src/db/locks.js'
import { type Slice, endSatisfiedWants, extendLeases, settleSlice, takeSlice } from '../../../src/ledger/slices.js'
import { insertWants } from '../../../src/ledger/wants.js'
import { rightsBeyondReading } from '../../../src/db/identity.js'
import { reconcile } from '../../../src/server/timescale/reconcile.js'
import { changingFunctions } from '../../support/catalogFunctions.js'
import { type TestDatabase, createTestDatabase } from '../../support/database.js'
import { testStorage } from '../../support/databaseServer.js'
import { type Login, login } from '../../support/login.js'
import { aFill, anInstrument, someTime } from '../../support/marketRows.js'
import { systemClock } from '../../../src/runtime/clock.js'

const egress = 'one address'
const instrument = { stream: 'fills', target: { category: 'SPOT', symbol: 'BTCUSDT' } } as const
let created: TestDatabase
let reader: Login
let attacker: pg.Client
let lock: Lease

beforeAll(async () => {
  created = await createTestDatabase()
  // Privileges of a database are not cloned with it.
  await created.database.pool.query(
    `do $$ begin execute format('revoke temporary on database %I from public', current_database()); end $$`,
  )
  reader = await login(created, 'market_reader')
})
afterAll(async () => {
  await reader.remove()
  await created.drop()
})
beforeEach(async () => {
  lock = await acquireLease(created.url, egress, {
    logger: pino({ level: 'silent' }),
    clock: systemClock,
    folder: tmpdir(),
  })
  attacker = new pg.Client({ connectionString: reader.url })
  attacker.on('error', () => undefined)
  await attacker.connect()
})
afterEach(async () => {
  await attacker.end()
  await lock.release()
})

async function leaseBackend(): Promise<number> {
  const { rows } = await created.database.pool.query<{ pid: number }>(
    `select pid from pg_stat_activity where application_name = 'market-recorder lease' and datname = current_database()`,
  )
  return rows[0]?.pid ?? 0
}

/** All that a reader could leave behind for others. */
async function world(): Promise<Record<string, unknown>> {
  const { rows } = await created.database.pool.query<Record<string, unknown>>(
    `select
      (select array_agg((name, pid, session)::text order by name) from recorder.lock) as locks,
      (select count(*) from pg_largeobject_metadata) as large_objects,
      (select count(*) from pg_replication_slots where database = current_database()) as slots,
      (select count(*) from pg_prepared_xacts where database = current_database()) as prepared,
      (select count(*) from pg_db_role_setting where setrole in (select oid from pg_roles where rolname = $1)) as settings,
      (select count(*) from pg_class where relnamespace <> 'pg_toast'::regnamespace) as relations,
      (select count(*) from pg_namespace where nspname !~ '^pg_(toast_)?temp') as schemas,
      (select count(*) from pg_proc) as functions,
      (select count(*) from pg_collation) as collations,
      (select relpages from pg_class where oid = 'market.fills'::regclass) as pages,
      (select array_agg(pid order by pid) from pg_stat_activity
        where application_name like 'market-recorder%' and datname = current_database()) as sessions`,
    [reader.user],
  )
  return rows[0] ?? {}
}

/** Does all that a recorder does. It would wait for any lock that a reader could hold, and the test with it. */
async function record(round: number): Promise<void> {
  const { db } = created.database
  const seenAt = someTime + round * 1000
  await recordInstruments(db, 'SPOT', [anInstrument({ status: `in round ${round}` })], seenAt, { complete: true })
  await recordRpiSymbols(db, [{ category: 'SPOT', symbol: 'BTCUSDT' }], seenAt)
  const [stored] = await db.transaction().execute((trx) =>
    storeFills(trx, [
      {
        ...instrument,
        rows: [aFill({ execId: String(round), ts: seenAt })],
        rejected: [],
        requestTime: seenAt + 1,
        receivedAt: seenAt + 2,
      },
    ]),
  )
  expect(stored?.inserted).toBe(1)
  expect(await reconcile(db, testStorage)).toEqual([])
  const series = { stream: 'candles', category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' } as const
  const flags = { again: false, isUrgent: false, hasOpenBeginning: false }
  const range = { from: seenAt, to: seenAt + 60_000 }
  await insertWants(db, [{ kind: 'repair', series, ranges: [range], floor: range.from, ...flags }])
  const slice = (await takeSlice(db, 'worker', ({ ranges }) => ranges, ['candles'])) as Slice
  await extendLeases(db, 'worker', [slice])
  const nothing = { requests: 0, received: 0, inserted: 0, updated: 0 }
  await db.transaction().execute((trx) => settleSlice(trx, slice, { done: slice.ranges, ...nothing }))
  await endSatisfiedWants(db)
}

describe('a login in market_reader', () => {
  it('calls every function that changes anything, and disturbs nothing', async () => {
    // The first round creates rows, which must not count as changes by the reader.
    await record(0)
    const pid = await leaseBackend()
    const functions = await changingFunctions(attacker, pid)
    expect(functions.length).toBeGreaterThan(100)
    const before = await world()
    await attacker.query('begin')
    const outcomes = new Map<string, string>()
    for (const { signature, call } of functions) {
      await attacker.query('savepoint before; set local statement_timeout = 2000')
      try {
        await attacker.query(call)
        outcomes.set(signature, 'ran')
        await attacker.query('release before')
      } catch (error) {
        outcomes.set(signature, String((error as pg.DatabaseError).code))
        await attacker.query('rollback to before')
      }
    }
    expect(outcomes.get('pg_terminate_backend(integer,bigint)')).toBe('42501')
    // Not among those that it may call.
    expect(outcomes.get('pg_advisory_lock(bigint)')).toBeUndefined()
    // With all that it got hold of still held, and afterwards, when it is committed.
    await record(1)
    expect(lock.maySend).toBe(true)
    await attacker.query('commit')
    await sleep(600)
    expect(lock.maySend).toBe(true)
    expect(await leaseBackend()).toBe(pid)
    const { locks, ...after } = await world()
    expect({ ...after, locks: before.locks }).toEqual(before)
    expect(locks).toEqual(expect.arrayContaining(before.locks as unknown[]))
    await record(2)
  })

  it('may take no advisory lock, of which 12,000 would leave no room for those of the recording', async () => {
    for (const name of [
      'pg_advisory_lock',
      'pg_try_advisory_lock',
      'pg_advisory_xact_lock',
      'pg_try_advisory_xact_lock_shared',
    ])
      await expect(attacker.query(`select ${name}(i) from generate_series(1, 12001) as i`), name).rejects.toMatchObject(
        { code: '42501' },
      )
  })

  it('that locks a thousand tables is ended and named when a row finds no room for its own lock', async () => {
    const { pool, db } = created.database
    const each = (statement: string) =>
      `do $$ begin for i in 1..1001 loop execute format('${statement}', i); end loop; end $$`
    await pool.query(`create schema many; grant ${reader.user} to current_user with inherit true`)
    await pool.query(each('create table many.t%s ()'))
    await pool.query(`grant usage on schema many to market_reader; grant select on all tables in schema many to market_reader;
      create function many.no_room() returns trigger language plpgsql as $$ begin
        if (select count(*) from pg_locks where mode = 'AccessShareLock') > 1000 then
          raise 'out of shared memory' using errcode = '53200', hint = 'You might need to increase "max_locks_per_transaction".';
        end if;
        return new;
      end $$;
      create trigger no_room before insert on market.fills for each statement execute function many.no_room()`)
    try {
      await attacker.query('begin')
      await attacker.query(each('lock table many.t%s in access share mode'))
      const rows = [aFill({ execId: 'no room' })]
      const batch = { ...instrument, rejected: [], rows, requestTime: someTime, receivedAt: someTime }
      const failure = await storeBatch(db, batch).then(() => undefined, describeDatabaseError)
      expect(failure).toMatch(
        new RegExp(`session \\d+ of ${reader.user} in \\w+ holds \\d+ locks and was ended; .*; sessions hold too many`),
      )
      await vi.waitFor(() => storeBatch(db, batch), 120_000)
    } finally {
      await attacker.end()
      await pool.query('drop function many.no_room() cascade')
      await pool.query(each('drop table many.t%s'))
      await pool.query('drop schema many cascade')
    }
  })

  it('that waits for a lock that it may not take is refused, or is ended when rows wait behind it', async () => {
    const { pool, db } = created.database
    await pool.query(`grant ${reader.user} to current_user with inherit true`)
    const writer = await pool.connect()
    const hasty = openDatabase({ url: created.url, statementTimeoutMs: 3000 })
    try {
      for (const [index, statement] of [
        'create rule mine as on insert to market.fills do instead nothing',
        'alter index market.fills_pkey depends on extension plpgsql',
        'truncate market.fills',
        'create trigger mine before insert on market.fills execute function pg_catalog.suppress_redundant_updates_trigger()',
      ].entries()) {
        await writer.query('begin; lock table market.fills in row exclusive mode; select from market.fills')
        const attack = new pg.Client({ connectionString: reader.url, application_name: 'attack' })
        attack.on('error', () => undefined)
        await attack.connect()
        await attack.query('set lock_timeout = 0; set statement_timeout = 0')
        const outcome = attack.query(statement).then(() => undefined, describeDatabaseError)
        const waits = `select from pg_stat_activity where application_name = 'attack' and wait_event_type = 'Lock'`
        const isRefused = await Promise.race([
          outcome.then(() => true),
          vi.waitFor(async () => {
            expect((await pool.query(waits)).rowCount).toBe(1)
            return false
          }, 120_000),
        ])
        const rows = [aFill({ execId: `in the way ${index}` })]
        const batch = { ...instrument, rejected: [], rows, requestTime: someTime, receivedAt: someTime }
        const failure = await storeBatch(hasty.db, batch).then(() => undefined, describeDatabaseError)
        const named = `session \\d+ of ${reader.user} in \\w+ waits for a lock that its login may not take and was ended`
        if (isRefused) expect(failure, statement).toBe(undefined)
        else expect(failure, statement).toMatch(new RegExp(named))
        await vi.waitFor(() => storeBatch(db, batch), 120_000)
        expect(await outcome).toBeDefined()
        await writer.query('commit')
        await attack.end().catch(() => undefined)
      }
    } finally {
      writer.release()
      await hasty.close()
    }
  })

  it('cannot pass for the session that holds a lock', async () => {
    const name = lockSessionName('a test')
    const owner = new pg.Client({ connectionString: created.url, application_name: name })
    const successor = new pg.Client({ connectionString: created.url, application_name: lockSessionName('a test') })
    await owner.connect()
    await successor.connect()
    const on = (client: pg.Client) => (text: string, values: readonly unknown[]) =>
      client.query<object>(text, [...values])
    try {
      expect(await tryLock(on(owner), 'contested')).toBe(true)
      expect(await tryLock(on(successor), 'contested')).toBe(false)
      await attacker.query("select set_config('application_name', $1, false)", [name])
      // Even if the system gave the attacker's process the number of the owner's.
      const { rows } = await attacker.query<{ pid: number }>('select pg_backend_pid() as pid')
      await created.database.pool.query("update recorder.lock set pid = $1 where name = 'contested'", [rows[0]?.pid])
      await owner.end()
      expect(await tryLock(on(successor), 'contested')).toBe(true)
    } finally {
      await successor.end()
    }
  })

  it('may not create large objects, temporary tables or anything else', async () => {
    expect(await rightsBeyondReading(reader.database.db)).toEqual([])
    expect(await rightsBeyondReading(created.database.db)).toContain('may write to the tables')
    for (const statement of [
      'create temporary table mine (i integer)',
      'select lo_creat(-1)',
      "select lo_from_bytea(0, 'x')",
      "select pg_logical_emit_message(false, 'x', 'y')",
      "insert into recorder.lock (name) values ('mine')",
      'delete from recorder.lease',
      'update recorder.lease set owner = null',
      'do $$ begin lock table recorder.lease in share mode; end $$',
      "select nextval('recorder.lease_epoch')",
      "select from recorder.lock where name = 'versions rpi_symbols' for update",
      'do $$ begin lock table recorder.migration in share mode; end $$',
      'do $$ begin lock table market.fills in row exclusive mode; end $$',
      'select pg_create_physical_replication_slot($$mine$$)',
      "select pg_read_file('postgresql.conf')",
      "select lo_export(1, '/tmp/mine')",
      `select pg_terminate_backend(${await leaseBackend()})`,
    ]) {
      await expect(attacker.query(statement), statement).rejects.toMatchObject({ code: '42501' })
    }
  })
})

describe('a lock that a session holds', () => {
  it('keeps no transaction open, so that VACUUM removes what is dead', async () => {
    await sleep(1_200)
    const { rows } = await created.database.pool.query(
      `select state, backend_xid, backend_xmin, xact_start from pg_stat_activity where pid = $1`,
      [await leaseBackend()],
    )
    expect(rows).toEqual([{ state: 'idle', backend_xid: null, backend_xmin: null, xact_start: null }])
  })
})
