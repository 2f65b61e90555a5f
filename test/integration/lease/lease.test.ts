import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test, type TestContext, vi } from 'vitest'
import { acquireLease, type Lease } from '../../../src/lease/lease.js'
import { leaseMs } from '../../../src/lease/right.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { type Disk, systemDisk } from '../../../src/runtime/disk.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aLookMs, anAddressOf, logger, within } from '../../support/leaseAddress.js'

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

const anAddress = (context: Pick<TestContext, 'onTestFinished' | 'task'>) => anAddressOf(database, context)

describe('the right to send from an address', () => {
  // Those that wait for long do so side by side.
  test.concurrent('is given on at once by one that gives it back', async (context) => {
    const { acquire } = await anAddress(context)
    const first = await acquire()
    expect(first.maySend).toBe(true)
    let second: Lease | undefined
    const waiting = acquire().then((lease) => (second = lease))
    await sleep(leaseMs + aLookMs)
    expect(second).toBeUndefined()
    await first.release()
    expect(first.maySend).toBe(false)
    expect((await waiting).maySend).toBe(true)
  })

  test.concurrent('ends before another one has it, when the owner is cut off from the database', async (context) => {
    const { proxy, proxied, acquire, isWaitedFor } = await anAddress(context)
    const first = await acquire(proxied)
    const waiting = acquire()
    await isWaitedFor()
    await sleep(aLookMs)
    const cutOffMs = performance.now()
    proxy.stall()
    const second = await waiting
    const tookMs = performance.now() - cutOffMs
    expect(first.check()).toBe(false)
    expect(tookMs).toBeGreaterThan(leaseMs - 1_000)
    // That there is no server now says nothing about the time in which nothing was known of it.
    await proxy.refuse()
    await sleep(2_000)
    expect(first.maySend).toBe(false)
    await proxy.restore()
    await second.release()
    await vi.waitFor(() => expect(first.maySend).toBe(true), within)
  })

  test.concurrent('stays while no server could give it to another one', async (context) => {
    const { proxy, proxied, acquire, isWaitedFor } = await anAddress(context)
    const leases: Lease[] = [await acquire(proxied)]
    const waiting = acquire(proxied).then((lease) => leases.push(lease))
    await isWaitedFor()
    await sleep(aLookMs)
    await proxy.refuse()
    for (const untilMs = performance.now() + 6_000; performance.now() < untilMs; await sleep(50))
      expect(leases[0]?.maySend).toBe(true)
    await proxy.restore()
    await sleep(leaseMs + aLookMs)
    await vi.waitFor(() => expect(leases.filter(({ maySend }) => maySend)).toHaveLength(1), within)
    await leases.find(({ maySend }) => maySend)?.release()
    await waiting
  })

  test.concurrent('stays while the table is locked, and is nobody else’s afterwards', async (context) => {
    const { acquire, isWaitedFor } = await anAddress(context)
    const leases = [await acquire()]
    void acquire().then((lease) => leases.push(lease))
    const theOwner = () => leases.filter(({ maySend }) => maySend)
    const staysWhileLocked = async () => {
      const [owner] = theOwner()
      await isWaitedFor()
      await sleep(aLookMs)
      const blocking = await database.database.pool.connect()
      let isKept = true
      try {
        await blocking.query('begin; lock table recorder.lease in exclusive mode')
        for (const untilMs = performance.now() + 6_000; performance.now() < untilMs; await sleep(50))
          isKept &&= owner?.maySend === true
      } finally {
        await blocking.query('rollback')
        blocking.release()
      }
      await sleep(leaseMs + aLookMs)
      await vi.waitFor(() => expect(theOwner()).toHaveLength(1), within)
      return isKept
    }
    // On a busy machine, two renewals may take longer than the right lasts. It then ends, as it should.
    let isKept = false
    for (let round = 1; round <= 5 && !isKept; round++) isKept = await staysWhileLocked()
    expect(isKept).toBe(true)
    await leases[0]?.release()
    await vi.waitFor(() => expect(leases).toHaveLength(2), within)
  })

  test.concurrent('is not given by a lock to a start without the database', async (context) => {
    const { address, acquire } = await anAddress(context)
    const first = await acquire()
    let second: Lease | undefined
    const blocking = await database.database.pool.connect()
    try {
      await blocking.query('begin')
      await blocking.query('select from recorder.lease where egress = $1 for update', [address])
      const waiting = acquire(database.url, { mayStartWithoutDatabase: true }).then((lease) => (second = lease))
      // Whether the first one keeps it on a busy machine or not: the second one has seen no row.
      for (const untilMs = performance.now() + 6_000; performance.now() < untilMs; await sleep(50))
        expect(second).toBeUndefined()
      await blocking.query('rollback')
      await first.release()
      expect((await waiting).maySend).toBe(true)
    } finally {
      blocking.release(true)
    }
  })

  // A machine so busy that this process stands still for seconds ends the right, as one that was suspended does.
  test.concurrent(
    'stays with one that nobody waits for, though nothing is known of the database',
    { retry: 2 },
    async (context) => {
      const { proxy, proxied, acquire } = await anAddress(context)
      const first = await acquire(proxied)
      await sleep(leaseMs + aLookMs)
      proxy.stall()
      for (const untilMs = performance.now() + 8_000; performance.now() < untilMs; await sleep(50))
        expect(first.maySend).toBe(true)
      proxy.cut()
    },
  )

  test.concurrent('ends when its row is deleted, and begins again after a whole lease', async (context) => {
    const { address, acquire, query } = await anAddress(context)
    const first = await acquire()
    const deletedMs = performance.now()
    await query('delete from recorder.lease where egress = $1', [address])
    const second = acquire()
    const winner = await Promise.race([
      second,
      (async () => {
        await vi.waitFor(() => expect(first.maySend).toBe(false), within)
        await vi.waitFor(() => expect(first.maySend).toBe(true), within)
        return first
      })(),
    ])
    expect(performance.now() - deletedMs).toBeGreaterThan(leaseMs - 100)
    await winner.release()
    await second
  })

  test.concurrent('is not taken by a patient command from an owner that is only late', async (context) => {
    const { proxy, proxied, acquire, isWaitedFor } = await anAddress(context)
    const first = await acquire(proxied)
    let second: Lease | undefined
    const waiting = acquire(database.url, { takeAfterMs: 3 * leaseMs }).then((lease) => (second = lease))
    await isWaitedFor()
    await sleep(aLookMs)
    const stalledMs = performance.now()
    proxy.stall()
    await sleep(leaseMs + aLookMs)
    expect([first.check(), second]).toEqual([false, undefined])
    await proxy.restore()
    await vi.waitFor(() => expect(first.check()).toBe(true), within)
    await proxy.refuse()
    expect((await waiting).maySend).toBe(true)
    expect(performance.now() - stalledMs).toBeGreaterThan(3 * leaseMs)
  })

  test.concurrent('belongs to a row and not to a session', async (context) => {
    const { acquire, query } = await anAddress(context)
    const first = await acquire()
    const waiting = acquire()
    for (let round = 0; round < 5; round++) {
      await query(`select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'market-recorder lease' and datname = current_database()`)
      await sleep(700)
      expect(first.maySend).toBe(true)
    }
    await first.release()
    await waiting
  })

  test.concurrent('is not there on waking, until the database has confirmed it', async (context) => {
    const { proxy, proxied, acquire, isWaitedFor } = await anAddress(context)
    const state = { sleptMs: 0 }
    // The monotonic clock of a suspended machine stands still, and the time since its start goes on.
    const clock = { ...systemClock, uptimeMs: () => systemClock.uptimeMs() + state.sleptMs }
    const first = await acquire(proxied, { clock })
    state.sleptMs = 60_000
    expect(first.check()).toBe(false)
    await vi.waitFor(() => expect(first.maySend).toBe(true), within)
    const waiting = acquire()
    await isWaitedFor()
    await sleep(aLookMs)
    proxy.stall()
    state.sleptMs = 120_000
    expect(first.check()).toBe(false)
    const second = await waiting
    expect([first.maySend, second.maySend]).toEqual([false, true])
  })

  test.concurrent('comes back to a start without the database that was too busy to renew', async (context) => {
    const { proxy, proxied, acquire, isWaitedFor } = await anAddress(context)
    await proxy.refuse()
    const state = { busyMs: 0 }
    const later = (time: () => number) => () => time() + state.busyMs
    const clock = { ...systemClock, now: later(systemClock.now), monotonicMs: later(systemClock.monotonicMs) }
    const folder = await mkdtemp(join(tmpdir(), 'market-recorder-lease-'))
    context.onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const noteFile = join(folder, 'lease.json')
    const lease = await acquire(proxied, { clock, mayStartWithoutDatabase: true, noteFile })
    expect(lease.maySend).toBe(true)
    state.busyMs = 60_000
    expect(lease.check()).toBe(false)
    await vi.waitFor(() => expect(lease.maySend).toBe(true), within)
    // Once another recorder was seen, only the database says who may send.
    await proxy.restore()
    const isNoted = (isContended: boolean) =>
      vi.waitFor(
        async () => expect(JSON.parse(await readFile(noteFile, 'utf8'))).toMatchObject({ isContended }),
        within,
      )
    await isNoted(false)
    const ending = new AbortController()
    const other = acquire(database.url, { signal: ending.signal }).catch(() => undefined)
    await isWaitedFor()
    await isNoted(true)
    await proxy.refuse()
    state.busyMs = 120_000
    expect(lease.check()).toBe(false)
    await sleep(aLookMs)
    expect(lease.maySend).toBe(false)
    ending.abort(new Error('stopped'))
    await other
  })

  test.concurrent.for([true, false])(
    'is had by one process of a folder without the database, if it was there before: %s',
    async (wasThere, context) => {
      const { proxy, proxied, acquire } = await anAddress(context)
      const folder = await mkdtemp(join(tmpdir(), 'market-recorder-lease-'))
      context.onTestFinished(() => rm(folder, { recursive: true, force: true }))
      const patient = { mayStartWithoutDatabase: true, noteFile: join(folder, 'lease.json') }
      const leases: Lease[] = []
      const start = () => acquire(proxied, patient).then((lease) => leases.push(lease))
      if (wasThere) await start()
      await proxy.refuse()
      const starting = [start(), start()]
      await vi.waitFor(() => expect(leases.length).toBeGreaterThan(0), within)
      await sleep(leaseMs + aLookMs)
      expect(leases).toHaveLength(1)
      await leases[0]?.release()
      await vi.waitFor(() => expect(leases).toHaveLength(2), within)
      await leases[1]?.release()
      await Promise.all(starting)
    },
  )

  test.concurrent('is known to be waited for from the first moment on', async (context) => {
    const { proxy, proxied, acquire, isWaitedFor } = await anAddress(context)
    const before = await acquire()
    const waiting = acquire(proxied)
    const other = acquire()
    await isWaitedFor()
    await sleep(aLookMs)
    await before.release()
    const owner = await Promise.race([waiting, other])
    if (owner === (await Promise.race([waiting, Promise.resolve(undefined)]))) {
      proxy.stall()
      await other
    } else {
      await owner.release()
      await waiting
    }
  })

  test('is noted once the disk takes the note, should it be full at first', async (context) => {
    const { acquire } = await anAddress(context)
    const folder = await mkdtemp(join(tmpdir(), 'market-recorder-lease-'))
    context.onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const noteFile = join(folder, 'lease.json')
    let refused = 0
    const disk: Disk = {
      ...systemDisk,
      writeFile: async (...parameters) => {
        if (refused++ < 2) throw new Error('no room')
        return systemDisk.writeFile(...parameters)
      },
    }
    await acquire(database.url, { noteFile, disk })
    await vi.waitFor(
      async () => expect(JSON.parse(await readFile(noteFile, 'utf8'))).toMatchObject({ isContended: false }),
      within,
    )
  })

  test('is taken by the first recorder of a database at once, and at another address after a lease', async () => {
    const empty = await createTestDatabase()
    const startedMs = performance.now()
    const first = await acquireLease(empty.url, 'first', { logger, clock: systemClock, folder: tmpdir() })
    const second = acquireLease(empty.url, 'second', { logger, clock: systemClock, folder: tmpdir() })
    expect(first.maySend).toBe(true)
    await first.release()
    await (await second).release()
    expect(performance.now() - startedMs).toBeGreaterThan(leaseMs)
    await empty.drop()
  })

  test('is not waited for any longer when the one that waits is stopped', async (context) => {
    const { acquire } = await anAddress(context)
    await acquire()
    const stop = new AbortController()
    const waiting = acquire(database.url, { signal: stop.signal })
    setTimeout(() => stop.abort(new Error('stopped')), 700)
    await expect(waiting).rejects.toThrow('stopped')
  })

  test('is not waited for when the database cannot be reached at first', async (context) => {
    const { proxy, proxied, acquire } = await anAddress(context)
    await proxy.refuse()
    await expect(acquire(proxied)).rejects.toThrow(/ECONNREFUSED/)
  })

  test('is had where a busy server takes longer than a renewal may to open the first connection', async (context) => {
    const { proxy, proxied, acquire } = await anAddress(context)
    proxy.stall()
    setTimeout(() => void proxy.restore(), 2_000)
    expect((await acquire(proxied)).maySend).toBe(true)
  })
})
