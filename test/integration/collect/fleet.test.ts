import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test, type TestContext, vi } from 'vitest'
import { Fleet } from '../../../src/collect/fleet/fleet.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { systemDisk } from '../../../src/runtime/disk.js'
import { acquireLease, type Lease } from '../../../src/lease/lease.js'
import { createTestDatabase } from '../../support/database.js'
import { startTcpProxy } from '../../support/tcpProxy.js'

const logger = pino({ level: 'silent' })

/** A fleet with a database, a way to it and a folder of its own: fleets wait for long, and so do it side by side. */
async function createFleet({ onTestFinished }: Pick<TestContext, 'onTestFinished'>) {
  const test = await createTestDatabase()
  const proxy = await startTcpProxy(test.url)
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-fleet-'))
  const leases: Lease[] = []
  onTestFinished(async () => {
    for (const lease of leases) await lease.release()
    await proxy.close()
    await test.drop()
    await rm(folder, { recursive: true, force: true })
  })
  /** Starts a recorder as far as the others see it: a session, and a part of the work. */
  const startMember = async (egress: string, url = test.url) => {
    const state = { pausedMs: 0 }
    const fleet = new Fleet({
      config: loadConfig({ env: {} }),
      egress,
      clock: systemClock,
      logger,
      disk: systemDisk,
      file: join(folder, `${egress}.json`),
      universe: () => ({ kind: 'listed', instruments: [] }),
      onChange: () => undefined,
      isReady: () => true,
      pausedMs: () => state.pausedMs,
    })
    const lease = await acquireLease(url, egress, { logger, clock: systemClock, folder: tmpdir(), sharing: fleet })
    leases.push(lease)
    const keys = Array.from({ length: 200 }, (_, index) => ({ category: 'SPOT', symbol: `X${index}` }) as const)
    return { fleet, lease, state, has: () => keys.filter((key) => fleet.ownership.hasInstrument(key)).length }
  }
  return { pool: test.database.pool, proxy, proxied: proxy.through(test.url), startMember }
}

const eventually = (check: () => void) => vi.waitFor(check, { timeout: 120_000, interval: 20 })

test.concurrent(
  'one that the service blocks leaves its part to the others, and the last one keeps it',
  async (context) => {
    const { startMember } = await createFleet(context)
    const [one, other] = [await startMember('a'), await startMember('b')]
    const both = () => {
      expect(one.has()).toBeGreaterThan(50)
      expect(one.has() + other.has()).toBe(200)
    }
    await eventually(both)

    one.state.pausedMs = 60_000
    await eventually(() => expect([one.has(), other.has()]).toEqual([0, 200]))
    other.state.pausedMs = 60_000
    // Some looks later.
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    expect(other.has()).toBe(200)

    one.state.pausedMs = 0
    other.state.pausedMs = 0
    await eventually(both)
  },
)

test.concurrent(
  'one that comes shares the work, and what it leaves belongs to the others before it stops asking',
  async (context) => {
    const { startMember } = await createFleet(context)
    const one = await startMember('c')
    await eventually(() => expect(one.has()).toBe(200))
    const other = await startMember('d')
    await eventually(() => expect(other.has()).toBeLessThan(150))
    // Each keeps what was its own until the other certainly asks for it.
    for (const untilMs = performance.now() + 6_000; performance.now() < untilMs; await sleep(20))
      expect(one.has() + other.has()).toBeGreaterThanOrEqual(200)
    await eventually(() => expect(one.has() + other.has()).toBe(200))
    const report = one.fleet.report()
    expect(report.recorders.map(({ egress, state }) => `${egress} ${state}`)).toEqual(['c recording', 'd recording'])

    await other.fleet.leave(() => other.lease.leave())
    await eventually(() => expect([one.has(), other.has()]).toEqual([200, 0]))
  },
)

test.concurrent('the database going away and coming back moves nothing', async (context) => {
  const { proxy, proxied, startMember } = await createFleet(context)
  const [one, other] = [await startMember('e', proxied), await startMember('f', proxied)]
  await eventually(() =>
    expect([one.fleet, other.fleet].map((fleet) => fleet.report().recorders.length)).toEqual([2, 2]),
  )
  await sleep(5_000)
  const before = [one.has(), other.has()]
  expect(before[0]).toBeLessThan(150)
  await proxy.refuse()
  await sleep(5_000)
  await proxy.restore()
  for (const untilMs = performance.now() + 6_000; performance.now() < untilMs; await sleep(20))
    expect([one.has(), other.has()]).toEqual(before)
})

test.concurrent('one that dies is seen gone although the clock of the database is set back', async (context) => {
  const { pool, proxy, proxied, startMember } = await createFleet(context)
  const [one, other] = [await startMember('g'), await startMember('h', proxied)]
  await eventually(() => expect(one.has() + other.has()).toBe(200))
  expect(other.has()).toBeGreaterThan(50)
  await proxy.refuse()
  await sleep(1_500)
  const ahead = `update recorder.lease set until = until + interval '2 hours' where egress = 'h'`
  await pool.query(ahead)
  await eventually(() => expect(one.has()).toBe(200))
  const state = () => one.fleet.report().recorders.find(({ egress }) => egress === 'h')
  expect(state()).toMatchObject({ state: 'gone' })
  expect(state()?.silentMs).toBeGreaterThanOrEqual(3_500)
  await proxy.restore()
  await eventually(() => expect(state()).toMatchObject({ state: 'recording' }))
})
