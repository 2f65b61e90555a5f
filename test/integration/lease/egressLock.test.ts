import net from 'node:net'
import pg from 'pg'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, test, type TestContext, vi } from 'vitest'
import { acquireEgressLock } from '../../../src/lease/egressLock.js'
import type { EgressLock, Sharing } from '../../../src/lease/egressOptions.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { endSilentOwner, fleetChannel } from '../../../src/lease/fleetState.js'
import { lockNames } from '../../../src/db/locks/names.js'
import { lockSessionName, lockShared, tryLock } from '../../../src/db/locks/sessionLock.js'
import { startTcpProxy } from '../../support/tcpProxy.js'

const logger = pino({ level: 'silent' })

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

/** An address of its own for a test, and a way to the database that it can break. */
async function anAddress(address: string, { onTestFinished }: Pick<TestContext, 'onTestFinished'>) {
  const proxy = await startTcpProxy(database.url)
  const locks: EgressLock[] = []
  const changes: [string, boolean, number][] = []
  onTestFinished(async () => {
    await proxy.restore()
    for (const lock of locks) await lock.release()
    await proxy.close()
  })
  const acquire = async (name: string, url = database.url, signal?: AbortSignal) => {
    const lock = await acquireEgressLock(url, address, {
      logger,
      onChange: (maySend) => changes.push([name, maySend, performance.now()]),
      ...(signal && { signal }),
    })
    locks.push(lock)
    return lock
  }
  return { proxy, locks, changes, acquire, proxied: proxy.through(database.url) }
}
const within = { timeout: 60_000, interval: 20 }
const backends = async () => {
  const { rows } = await database.database.pool.query<{ pid: number }>(
    `select pid from pg_stat_activity where application_name like 'market-recorder egress lock %'
      and datname = current_database() order by backend_start`,
  )
  return rows.map(({ pid }) => pid)
}

describe('the right to send from an address', () => {
  // Those that wait for long do so side by side.
  test.concurrent('is given on at once by one that says good-bye', async (context) => {
    const { acquire } = await anAddress('given on', context)
    const first = await acquire('first')
    expect(first.maySend).toBe(true)
    let second: EgressLock | undefined
    void acquire('second').then((lock) => (second = lock))
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    expect(second).toBeUndefined()
    await first.release()
    expect(first.maySend).toBe(false)
    await vi.waitFor(() => expect(second?.maySend).toBe(true), within)
  })

  test.concurrent('is lost before another has it when the owner is cut off from the database', async (context) => {
    const { proxy, proxied, changes, acquire } = await anAddress('cut off', context)
    const first = await acquire('first', proxied)
    const waiting = acquire('second')
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    const cutOff = performance.now()
    proxy.stall()
    // The server's keepalive ends the silent session after 4 s.
    setTimeout(() => proxy.cutOnServerSide(), 4_000)
    const second = await waiting
    const takenOver = performance.now()
    expect(second.maySend).toBe(true)
    expect(first.maySend).toBe(false)
    const lost = changes.find(([name, maySend]) => name === 'first' && !maySend)?.[2] ?? Infinity
    expect(lost).toBeLessThan(takenOver)
    expect(takenOver - cutOff).toBeLessThan(60_000)
    // That there is no server now says nothing about the time in which nothing was known of it.
    await proxy.refuse()
    const until = performance.now() + 2_500
    while (performance.now() < until) {
      expect(first.maySend).toBe(false)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    await proxy.restore()
    await second.release()
    await vi.waitFor(() => expect(first.maySend).toBe(true), within)
  })

  test.concurrent(
    'stays while there is no server that could give it to another, and nobody else has it afterwards',
    async (context) => {
      const { proxy, proxied, locks, acquire } = await anAddress('no server', context)
      const first = await acquire('first', proxied)
      void acquire('second', proxied).catch(() => undefined)
      await new Promise((resolve) => setTimeout(resolve, 1_500))
      await proxy.refuse()
      const until = performance.now() + 5_000
      while (performance.now() < until) {
        expect(first.maySend).toBe(true)
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
      await proxy.restore()
      const over = performance.now() + 6_000
      while (performance.now() < over) {
        // Whoever is first at the server that is back: never both.
        expect(locks.filter((lock) => lock.maySend).length).toBeLessThanOrEqual(1)
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      await vi.waitFor(() => expect(locks.filter((lock) => lock.maySend)).toHaveLength(1), within)
      await locks.find((lock) => lock.maySend)?.release()
      await vi.waitFor(() => expect(locks).toHaveLength(2), within)
    },
  )

  test.concurrent('stays with one that nobody waits for, even if nothing is known of the database', async (context) => {
    const { proxy, proxied, acquire } = await anAddress('alone', context)
    const first = await acquire('first', proxied)
    await new Promise((resolve) => setTimeout(resolve, 800))
    proxy.stall()
    const until = performance.now() + 5_000
    while (performance.now() < until) {
      expect(first.maySend).toBe(true)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    proxy.cut()
  })

  test.concurrent('is known to be waited for from the first moment on', async (context) => {
    const { proxy, proxied, acquire } = await anAddress('waited for', context)
    const standby = new pg.Client({ connectionString: database.url, application_name: lockSessionName('standby') })
    await standby.connect()
    context.onTestFinished(() => standby.end())
    await lockShared((text, values) => standby.query(text, [...values]), lockNames.egressStandby('waited for'), 'other')
    const owner = await acquire('owner', proxied)
    expect(owner.maySend).toBe(true)
    // It has not looked again since.
    proxy.stall()
    await vi.waitFor(() => expect(owner.maySend).toBe(false), within)
  })

  test('is taken again at once by an owner whose session alone was ended', async (context) => {
    const { acquire } = await anAddress('one address', context)
    const first = await acquire('first')
    await new Promise((resolve) => setTimeout(resolve, 800))
    const [owner] = await backends()
    await database.database.pool.query('select pg_terminate_backend($1)', [owner])
    await vi.waitFor(async () => expect(await backends()).not.toContain(owner), within)
    await vi.waitFor(async () => expect(await backends()).toHaveLength(1), within)
    expect(first.maySend).toBe(true)
  })

  test('comes and goes without a warning of the server', async (context) => {
    const { acquire } = await anAddress('one address', context)
    const emitted = vi.spyOn(pg.Client.prototype, 'emit')
    const first = await acquire('first')
    await first.release()
    await acquire('second')
    expect(emitted.mock.calls.filter(([event]) => String(event) === 'notice')).toEqual([])
    emitted.mockRestore()
  })

  test('is not waited for any longer when the one that waits is stopped', async (context) => {
    const { acquire } = await anAddress('one address', context)
    await acquire('first')
    const stop = new AbortController()
    const waiting = acquire('second', database.url, stop.signal)
    setTimeout(() => stop.abort(new Error('stopped')), 700)
    await expect(waiting).rejects.toThrow('stopped')
    await vi.waitFor(async () => expect(await backends()).toHaveLength(1), within)
  })

  test('a database that cannot be reached at first is told, not waited for', async (context) => {
    const { proxy, proxied, acquire } = await anAddress('one address', context)
    await proxy.refuse()
    await expect(acquire('first', proxied)).rejects.toThrow(/ECONNREFUSED/)
  })
})

test('a way to the database that closes each connection at once is tried a few times a second, not all the time', async (context) => {
  const { proxy, proxied, acquire } = await anAddress('closed at once', context)
  const lock = await acquire('first', proxied)
  expect(lock.maySend).toBe(true)
  // As a proxy does that has no server behind it.
  let connections = 0
  const closing = net.createServer((socket) => {
    connections++
    socket.on('error', () => undefined)
    socket.destroy()
  })
  await proxy.refuse()
  const from = performance.now()
  await new Promise<void>((resolve) => void closing.listen(Number(new URL(proxied).port), '127.0.0.1', resolve))
  await vi.waitFor(() => expect(connections).toBeGreaterThan(0), within)
  await new Promise((resolve) => setTimeout(resolve, 2_000))
  await new Promise((resolve) => void closing.close(resolve))
  // Half a second between two of them, and one at once after the session has ended.
  expect(connections).toBeLessThan((performance.now() - from) / 400 + 3)
})

test('one that was seen to wait is not forgotten when the rest of the look fails', async (context) => {
  const { proxy, proxied, locks } = await anAddress('half a look', context)
  const other = new pg.Client({ connectionString: database.url, application_name: lockSessionName('egress lock') })
  await other.connect()
  context.onTestFinished(() => other.end())
  const wait = () =>
    lockShared((text, values) => other.query(text, [...values]), lockNames.egressStandby('half a look'), 'second')
  let looks = 0
  const look: Sharing['look'] = async (run) => {
    looks++
    if (looks === 3) {
      // Those who wait have been counted for this time. The notification makes the next look a whole one, at once.
      await wait()
      await other.query(`notify ${fleetChannel}`)
      await run('select 1', [])
    } else if (looks === 4) {
      // They were counted once more, and from now on nothing gets through.
      proxy.stall()
      throw new Error('nothing comes')
    }
  }
  const entry = { fleet: 'half a look', budget: 1, place: 'here' }
  const first = await acquireEgressLock(proxied, 'half a look', { logger, sharing: { entry, look } })
  locks.push(first)
  expect(first.maySend).toBe(true)
  await vi.waitFor(() => expect(first.maySend).toBe(false), { ...within, timeout: 20_000 })
  expect(looks).toBe(4)
})

test('one that has just taken over from a silent owner is given time to begin, and is ended when it is silent for long itself', async () => {
  const { pool } = database.database
  const [address, lock] = ['silent', 'egress silent']
  await pool.query(
    `insert into recorder.egress (egress, owner, held_since, heartbeat_at)
     values ($1, 'gone', now() - interval '1 hour', now() - interval '1 minute')`,
    [address],
  )
  const successor = new pg.Client({ connectionString: database.url, application_name: 'market-recorder successor' })
  successor.on('error', () => undefined)
  await successor.connect()
  const ended = new Promise((resolve) => successor.once('end', resolve))
  expect(await tryLock((text, values) => successor.query(text, [...values]), lock)).toBe(true)
  const other = (text: string, values: readonly unknown[]) => pool.query(text, [...values])
  expect(await endSilentOwner(other, address, lock, 8_000)).toBe(false)
  await pool.query(`update recorder.lock set taken_at = now() - interval '9 seconds' where name = $1`, [lock])
  expect(await endSilentOwner(other, address, lock, 8_000)).toBe(true)
  await ended
})
