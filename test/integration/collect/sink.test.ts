import { describe, expect, test, vi } from 'vitest'
import { aFill } from '../../support/marketRows.js'
import {
  closeSink,
  countFills,
  database,
  fills,
  goOn,
  isStored,
  lines,
  openSink,
  proxy,
  query,
  sink,
  stats,
} from '../../support/sinkUnderTest.js'

describe('a database that works', () => {
  test('has the rows when the write is done', async () => {
    await goOn(1, 3)
    expect(await countFills()).toBe(4)
    expect(sink.backlog()).toMatchObject({ batches: 0, spooledBytes: 0, isSpooling: false })
  })
})

describe('a database that does not take rows: nothing waits, and all is there when it is back', () => {
  const check = async (fail: () => Promise<unknown>, mend: () => Promise<unknown>) => {
    await goOn(1, 2)
    await fail()
    await goOn(3, 20)
    expect(sink.backlog()).toMatchObject({ isSpooling: true })
    expect(sink.backlog().spooledBytes).toBeGreaterThan(0)
    await mend()
    await isStored(21)
    expect(stats.fills.rowsDropped).toBe(0)
    expect((await query('select * from recorder.gap')).rows).toEqual([])
    expect((await query('select * from recorder.rejected_row')).rows).toEqual([])
    // One line when it began: not one for each answer.
    expect(lines.filter((line) => line.startsWith('database')).length).toBeLessThanOrEqual(2)
  }

  test('stopped or failing over: connections are cut and refused', () =>
    check(
      () => proxy.refuse(),
      () => proxy.restore(),
    ))

  test('silent: no answer, and no end of the connection either', () =>
    check(
      () => Promise.resolve(proxy.stall()),
      async () => {
        proxy.cut()
        await proxy.restore()
      },
    ))

  test('too many connections', async () => {
    await query(`create role limited login password 'limited' in role recorder_writer`)
    // Who may create a role may not end its sessions yet.
    await query('grant limited to current_user')
    const url = new URL(database.url)
    url.username = 'limited'
    url.password = 'limited'
    await closeSink()
    await openSink({ url: url.href })
    try {
      await check(
        async () => {
          await query('alter role limited connection limit 0')
          await query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'limited'`)
        },
        () => query('alter role limited connection limit -1'),
      )
    } finally {
      await closeSink()
      await query('drop role limited')
      await openSink()
    }
  })

  test('read-only', async () => {
    const name = new URL(database.url).pathname.slice(1)
    const end = () =>
      query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sink test'`)
    await check(
      async () => {
        await query(`alter database ${name} set default_transaction_read_only = on`)
        await end()
      },
      async () => {
        await query(`alter database ${name} reset default_transaction_read_only`)
        await end()
      },
    )
  })

  test('disk full', async () => {
    await query(`create function disk_full() returns trigger language plpgsql as
      $$ begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$`)
    await check(
      () => query('create trigger disk_full before insert on market.fills execute function disk_full()'),
      () => query('drop function disk_full() cascade'),
    )
  })

  test('locked for longer than a write may wait', async () => {
    const holder = await database.database.pool.connect()
    await check(
      async () => {
        await holder.query('begin')
        await holder.query('lock table market.fills in access exclusive mode')
      },
      async () => {
        await holder.query('rollback')
        holder.release()
      },
    )
  })

  test('being migrated or restored by another process: the table is not there', () =>
    check(
      () => query('alter table market.fills rename to fills_away'),
      () => query('alter table market.fills_away rename to fills'),
    ))

  test('a session ended in the middle of a transaction', async () => {
    const holder = await database.database.pool.connect()
    await holder.query('begin')
    await holder.query('lock table market.fills in access exclusive mode')
    const written = sink.write(fills(1))
    await vi.waitFor(async () => {
      const { rows } = await query(
        `select pid from pg_stat_activity where application_name = 'sink test' and wait_event_type = 'Lock'`,
      )
      expect(rows).toHaveLength(1)
    })
    await query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sink test'`)
    await written
    await holder.query('rollback')
    holder.release()
    await isStored(2)
  })
})

describe('what cannot be stored for good', () => {
  test('is kept as rejected rows and holds nothing up', async () => {
    const broken = { ...fills(1), rows: [{ ...aFill(), price: { no: 'price' } }, null] }
    await sink.write(broken)
    await goOn(2, 3)
    expect(await countFills()).toBe(3)
    expect((await query('select raw from recorder.rejected_row')).rows.length).toBeGreaterThan(0)
  })
})
