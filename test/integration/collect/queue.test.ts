import { describe, expect, test, vi } from 'vitest'
import { batchOf } from '../../support/batches.js'
import { aFill } from '../../support/marketRows.js'
import { at, fills, queueUnderTest } from '../../support/queueUnderTest.js'

const own = queueUnderTest()
const patience = { timeout: 120_000, interval: 20 }

/** Other tests run on the same server. */
const isOwn = `application_name = 'queue test' and datname = current_database()`

describe('a database that works', () => {
  test('has the rows when the write is done', async () => {
    await own.goOn(1, 3)
    expect(await own.countFills()).toBe(4)
    expect(own.queue.backlog()).toMatchObject({ batches: 0, spooledBytes: 0, isSpooling: false })
  })
})

describe('many responses at once', () => {
  test('are stored, and one whose row the database refuses takes no other with it', async () => {
    const bad = { ...fills(0), target: { category: 'SPOT', symbol: 'BADUSDT' } } as const
    const writes = Array.from({ length: 40 }, (_, index) => {
      const symbol = `MANY${index}USDT`
      const target = { category: 'SPOT', symbol } as const
      return own.queue.write({ ...fills(0), target, rows: [aFill({ symbol, ts: 1_760_000_000_000 + index })] })
    })
    const refused = own.queue.write({ ...bad, rows: [aFill({ symbol: 'BADUSDT', price: 'no number' })] })
    await Promise.all([...writes, refused])
    // On a busy machine some may have taken the way over the disk.
    await vi.waitFor(
      async () => {
        expect(own.queue.backlog()).toMatchObject({ batches: 0, isSpooling: false })
        const { rows } = await own.query(`select count(*)::int as count from market.fills where symbol like 'MANY%'`)
        expect(rows).toEqual([{ count: 40 }])
        expect((await own.query('select * from recorder.rejected_row')).rows).toHaveLength(1)
      },
      { timeout: 120_000, interval: 50 },
    )
  })
})

describe('a database that does not take rows: nothing waits, and all is there when it is back', () => {
  const check = async (fail: () => Promise<unknown>, mend: () => Promise<unknown>) => {
    await own.goOn(1, 2)
    await fail()
    await own.goOn(3, 20)
    expect(own.queue.backlog()).toMatchObject({ isSpooling: true })
    expect(own.queue.backlog().spooledBytes).toBeGreaterThan(0)
    await mend()
    await own.isStored(21)
    expect(own.stats.fills.rowsDropped).toBe(0)
    expect((await own.query('select * from recorder_page.gap')).rows).toEqual([])
    expect((await own.query('select * from recorder.rejected_row')).rows).toEqual([])
    // One line when it began: not one for each answer.
    expect(own.lines.filter((line) => line.startsWith('storing')).length).toBeLessThanOrEqual(2)
  }

  test('stopped or failing over: connections are cut and refused', () =>
    check(
      () => own.proxy.refuse(),
      () => own.proxy.restore(),
    ))

  test('silent: no answer, and no end of the connection either', () =>
    check(
      () => Promise.resolve(own.proxy.stall()),
      async () => {
        own.proxy.cut()
        await own.proxy.restore()
      },
    ))

  test('too many connections', async () => {
    await own.query(`create role limited login password 'limited' in role recorder_writer`)
    // Who may create a role may not end its sessions yet.
    await own.query('grant limited to current_user')
    const url = new URL(own.database.url)
    url.username = 'limited'
    url.password = 'limited'
    await own.closeQueue()
    await own.openQueue({ url: url.href })
    try {
      await check(
        async () => {
          await own.query('alter role limited connection limit 0')
          await own.query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'limited'`)
        },
        () => own.query('alter role limited connection limit -1'),
      )
    } finally {
      await own.closeQueue()
      await own.query('drop role limited')
      await own.openQueue()
    }
  })

  test('read-only', async () => {
    const name = new URL(own.database.url).pathname.slice(1)
    const end = () => own.query(`select pg_terminate_backend(pid) from pg_stat_activity where ${isOwn}`)
    await check(
      async () => {
        await own.query(`alter database ${name} set default_transaction_read_only = on`)
        await end()
      },
      async () => {
        await own.query(`alter database ${name} reset default_transaction_read_only`)
        await end()
      },
    )
  })

  test('disk full', async () => {
    await own.query(`create function disk_full() returns trigger language plpgsql as
      $$ begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$`)
    await check(
      () => own.query('create trigger disk_full before insert on market.fills execute function disk_full()'),
      () => own.query('drop function disk_full() cascade'),
    )
  })

  test('locked for longer than a write may wait', async () => {
    const holder = await own.database.database.pool.connect()
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
      () => own.query('alter table market.fills rename to fills_away'),
      () => own.query('alter table market.fills_away rename to fills'),
    ))

  test('a session ended in the middle of a transaction', async () => {
    const holder = await own.database.database.pool.connect()
    await holder.query('begin')
    await holder.query('lock table market.fills in access exclusive mode')
    const written = own.queue.write(fills(1))
    await vi.waitFor(async () => {
      const { rows } = await own.query(`select pid from pg_stat_activity where ${isOwn} and wait_event_type = 'Lock'`)
      expect(rows).toHaveLength(1)
    }, patience)
    await own.query(`select pg_terminate_backend(pid) from pg_stat_activity where ${isOwn}`)
    await written
    await holder.query('rollback')
    holder.release()
    await own.isStored(2)
  })
})

describe('what cannot be stored for good', () => {
  test('is kept as rejected rows and holds nothing up', async () => {
    const broken = { ...fills(1), rows: [{ ...aFill(), price: { no: 'price' } }, null] }
    await own.queue.write(broken)
    await own.goOn(2, 3)
    await own.isStored(3)
    expect((await own.query('select raw from recorder.rejected_row')).rows.length).toBeGreaterThan(0)
  })

  test('is an instrument whose ledger stays locked: it holds up no other one, and is stored afterwards', async () => {
    await own.goOn(1, 2)
    await own.isStored(3)
    const holder = await own.database.database.pool.connect()
    await holder.query('begin')
    await holder.query("select from recorder.ledger where symbol = 'BTCUSDT' for update")
    try {
      expect(await own.queue.write(fills(3))).toBe(true)
      const target = { category: 'SPOT', symbol: 'ETHUSDT' } as const
      const rows = [aFill({ ...target, ts: at })]
      expect(await own.queue.write(batchOf('fills', target, rows, at + 1_000))).toBe(true)
      await vi.waitFor(async () => expect(await own.countFills()).toBe(4), patience)
      await vi.waitFor(() => expect(own.lines.join()).toMatch(/late responses: .*fills SPOT BTCUSDT/), {
        ...patience,
        interval: 500,
      })
    } finally {
      await holder.query('rollback')
      holder.release()
    }
    await own.isStored(5)
  })
})
