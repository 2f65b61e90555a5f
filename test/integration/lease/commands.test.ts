import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test, type TestContext, vi } from 'vitest'
import type { Lease } from '../../../src/lease/lease.js'
import { leaseMs } from '../../../src/lease/right.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aLookMs, anAddressOf, within } from '../../support/leaseAddress.js'

let database: TestDatabase

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

const anAddress = (context: Pick<TestContext, 'onTestFinished' | 'task'>) => anAddressOf(database, context)

describe('the right of a command to send from an address', () => {
  test.concurrent('is given up by a command to a recorder that waits, and not to another command', async (context) => {
    const { acquire } = await anAddress(context)
    let isWanted = false
    const first = await acquire(database.url, { giveWay: () => (isWanted = true) })
    let second: Lease | undefined
    const ending = new AbortController()
    const command = { giveWay: () => undefined, takeAfterMs: 3 * leaseMs, signal: ending.signal }
    const following = acquire(database.url, command).then((lease) => (second = lease))
    await sleep(leaseMs + aLookMs)
    expect([isWanted, second]).toEqual([false, undefined])
    const recorder = acquire()
    await vi.waitFor(() => expect(isWanted).toBe(true), within)
    await first.release()
    expect((await recorder).maySend).toBe(true)
    expect(second).toBeUndefined()
    ending.abort(new Error('stopped'))
    await following.catch(() => undefined)
  })

  test.concurrent('is had by a command at once from a command, and late from a recorder', async (context) => {
    const { acquire } = await anAddress(context)
    const command = { giveWay: () => undefined, takeAfterMs: 3 * leaseMs }
    const recorder = await acquire()
    let follower: Lease | undefined
    const following = acquire(database.url, command).then((lease) => (follower = lease))
    await sleep(aLookMs)
    await recorder.release()
    await sleep(leaseMs + aLookMs)
    expect(follower).toBeUndefined()
    const restarted = await acquire()
    const releasedMs = performance.now()
    await restarted.release()
    const first = await following
    expect(performance.now() - releasedMs).toBeGreaterThan(3 * leaseMs - aLookMs)
    const second = acquire(database.url, { ...command, takeAfterMs: 2 ** 30 })
    await sleep(aLookMs)
    await first.release()
    expect((await second).maySend).toBe(true)
  })

  test.concurrent('ends for a command with the silence of the database, for others may wait', async (context) => {
    const { proxy, proxied, acquire } = await anAddress(context)
    const first = await acquire(proxied, { giveWay: () => undefined })
    const second = acquire(database.url, { giveWay: () => undefined })
    await sleep(aLookMs)
    proxy.stall()
    expect((await second).maySend).toBe(true)
    expect(first.check()).toBe(false)
  })
})
