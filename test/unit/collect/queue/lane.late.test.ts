import { afterEach, beforeEach, expect, test } from 'vitest'
import { Lane } from '../../../../src/collect/queue/lane.js'
import type { Spool } from '../../../../src/collect/queue/spool.js'
import type { StoreOutcome } from '../../../../src/ledger/storeBatches.js'
import { systemClock } from '../../../../src/runtime/clock.js'
import { Incidents } from '../../../../src/runtime/incidents.js'
import { createLogger } from '../../../../src/runtime/logger.js'
import { createFakeClock, type FakeClock } from '../../../support/fakeClock.js'
import { nameOf, openSoundSpool, spooledBatch } from '../../../support/spooledBatches.js'

const nothing = { inserted: 0, updated: 0, unchanged: 0, gapsFound: 0, lateCandles: 0, remarks: [] }
const tooLong = Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' })

let clock: FakeClock
let incidents: Incidents
let spool: Spool
let lane: Lane
/** Symbols whose batches always take too long. */
let late: Set<string>
let stored: string[]

beforeEach(async () => {
  clock = createFakeClock()
  incidents = new Incidents(createLogger('silent'), clock)
  late = new Set()
  stored = []
  spool = await openSoundSpool()
  lane = new Lane({
    stream: 'fills',
    async store(batches) {
      const isLate = batches.some(({ target }) => late.has((target as { readonly symbol: string }).symbol))
      if (isLate) {
        await clock.sleep(20_000)
        return batches.map(() => ({ isStored: false, error: tooLong }))
      }
      for (const batch of batches) stored.push(nameOf(batch))
      return batches.map((): StoreOutcome => ({ isStored: true, ...nothing, rejected: 0 }))
    },
    spool,
    clock,
    incidents,
    onStored: () => undefined,
  })
})
afterEach(async () => {
  await lane.close(AbortSignal.abort())
  await spool.close()
})

/** Lets time pass until something is so. The disk packs responses in real time. */
async function until(isSo: () => boolean, stepMs = 500): Promise<void> {
  for (const startedMs = performance.now(); !isSo();) {
    if (performance.now() - startedMs > 120_000) throw new Error(`it is never so: ${isSo.toString()}`)
    await clock.advance(stepMs)
    await systemClock.sleep(1)
  }
}

async function wait(ms: number): Promise<void> {
  const endMs = clock.monotonicMs() + ms
  await until(() => clock.monotonicMs() >= endMs, 5_000)
}

const write = (symbol: string, at: number) => lane.write(spooledBatch('fills', symbol, at))
const lateParts = () => incidents.recent().filter(({ what }) => what === 'late responses')

test('a response that the database never takes in time holds up none of other instruments, and waits', async () => {
  late.add('A')
  for (const [symbol, at] of [
    ['A', 0],
    ['A', 1],
    ['B', 0],
  ] as const)
    await spool.append(spooledBatch('fills', symbol, at))
  lane.readDisk()
  await until(() => stored.includes('fills B 0'))
  // Those of other instruments that come now need no disk, and later ones of this instrument wait behind it.
  let isCKept = false
  void write('C', 0).then(() => (isCKept = true))
  await until(() => isCKept)
  void write('A', 2)
  await until(() => lateParts().length > 0)
  expect(stored).toEqual(['fills B 0', 'fills C 0'])
  expect(lateParts()[0]?.message).toMatch(/statement timeout.* fills SPOT A +are not stored, others are$/)
  late.clear()
  await until(() => !lane.isSpooling)
  expect(stored.slice(2).toSorted()).toEqual(['fills A 0', 'fills A 1', 'fills A 2'])
})

test('all wait while the database takes none', async () => {
  for (const symbol of ['A', 'B']) {
    late.add(symbol)
    await spool.append(spooledBatch('fills', symbol, 0))
  }
  lane.readDisk()
  await wait(20 * 60_000)
  expect(stored).toEqual([])
  late.clear()
  await until(() => !lane.isSpooling)
  expect(stored.toSorted()).toEqual(['fills A 0', 'fills B 0'])
})
