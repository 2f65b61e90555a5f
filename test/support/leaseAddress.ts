import { tmpdir } from 'node:os'
import type pg from 'pg'
import { pino } from 'pino'
import { expect, type TestContext, vi } from 'vitest'
import { acquireLease, type Lease } from '../../src/lease/lease.js'
import { systemClock } from '../../src/runtime/clock.js'
import type { TestDatabase } from './database.js'
import { startTcpProxy } from './tcpProxy.js'

export const logger = pino({ level: 'silent' })
export const within = { timeout: 120_000, interval: 20 }
/** Longer than the owner takes to learn of something. */
export const aLookMs = 1_200

/** An address of its own for a test, a way to the database that the test can break, and a watch that never two send. */
export async function anAddressOf(
  database: TestDatabase,
  { onTestFinished, task }: Pick<TestContext, 'onTestFinished' | 'task'>,
) {
  const address = task.name
  const proxy = await startTcpProxy(database.url)
  const leases: Lease[] = []
  let mostAtOnce = 0
  const watch = setInterval(() => {
    mostAtOnce = Math.max(mostAtOnce, leases.filter((lease) => lease.check()).length)
  }, 10)
  onTestFinished(async () => {
    clearInterval(watch)
    await proxy.restore()
    await Promise.all(leases.map((lease) => lease.release()))
    await proxy.close()
    expect(mostAtOnce).toBeLessThanOrEqual(1)
  })
  const acquire = async (url = database.url, options: Partial<Parameters<typeof acquireLease>[2]> = {}) => {
    const lease = await acquireLease(url, address, { logger, clock: systemClock, folder: tmpdir(), ...options })
    leases.push(lease)
    return lease
  }
  /** Resolves when somebody waits who was told so. */
  const isWaitedFor = () =>
    vi.waitFor(async () => {
      const { rows } = await query('select from recorder.lease where egress = $1 and waited_until > now()', [address])
      expect(rows).toHaveLength(1)
    }, within)
  const query = (text: string, values: readonly unknown[] = []) =>
    database.database.pool.query<pg.QueryResultRow>(text, [...values])
  return { address, proxy, acquire, proxied: proxy.through(database.url), isWaitedFor, query }
}
