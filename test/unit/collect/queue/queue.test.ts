import fc from 'fast-check'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { Queue } from '../../../../src/collect/queue/queue.js'
import { type CollectorStats, createStats } from '../../../../src/collect/streams/stream.js'
import type { Batch } from '../../../../src/ledger/batch.js'
import type { NewGap } from '../../../../src/ledger/gaps.js'
import type { StoreOutcome } from '../../../../src/ledger/storeBatches.js'
import { categories, futuresCategories, tradedCategories } from '../../../../src/market/category.js'
import { type Clock, systemClock } from '../../../../src/runtime/clock.js'
import { Incidents } from '../../../../src/runtime/incidents.js'
import { createLogger } from '../../../../src/runtime/logger.js'
import { DiskContent, mountDisk } from '../../../simulation/memoryDisk.js'
import { nameOf, spooledBatch } from '../../../support/spooledBatches.js'

/** Pauses are short; the patience is that of the recorder. */
const clock: Clock = {
  ...systemClock,
  monotonicMs: () => systemClock.monotonicMs() + aheadMs,
  sleep: (ms, signal) => systemClock.sleep(ms / 100, signal),
  after: (ms, action) => systemClock.after(ms < 2_000 ? ms / 100 : ms, action),
}

let content: DiskContent
let aheadMs = 0
let isFull: boolean
let readFailure: string | undefined
/** In the order in which the ledger took them. */
let stored: Batch[]
let gaps: NewGap[]
let isAway: boolean
/** Decides which batches the ledger does not take. */
let refuses: (batch: Batch) => boolean
let stats: CollectorStats
let dropped: Batch[]
let incidents: Incidents

beforeEach(() => {
  content = new DiskContent()
  isFull = false
  readFailure = undefined
  stored = []
  gaps = []
  isAway = false
  refuses = () => isAway
  dropped = []
})

async function store(batches: readonly Batch[]): Promise<StoreOutcome[]> {
  await systemClock.sleep(batches[0]?.stream === 'candles' ? 3 : 0)
  return batches.map((batch) => {
    if (refuses(batch)) return { isStored: false, error: new Error('connection refused') }
    stored.push(batch)
    const nothing = { updated: 0, unchanged: 0, rejected: 0, gapsFound: 0, lateCandles: 0, remarks: [] }
    return { isStored: true, inserted: batch.rows.length, ...nothing }
  })
}

function openQueue(maxBytes = 10_000): Promise<Queue> {
  const disk = mountDisk(content, {
    isFull: () => isFull,
    readFailure: () => readFailure,
    random: () => 0.5,
    work: () => Promise.resolve(),
  })
  stats = createStats()
  incidents = new Incidents(createLogger('silent'), clock)
  const recordGap = (gap: NewGap) => {
    if (isAway) return Promise.reject(new Error('connection refused'))
    gaps.push(gap)
    return Promise.resolve()
  }
  return Queue.open(
    { store, recordGap },
    {
      root: '/spool',
      maxBytes,
      disk,
      clock,
      serviceNow: () => null,
      stats,
      incidents,
      onDamage: () => expect.unreachable('nothing is damaged'),
      onDropped: (batches) => dropped.push(...batches),
    },
  )
}

const isDone = (queue: Queue) =>
  vi.waitFor(() => expect(queue.backlog()).toMatchObject({ batches: 0, spooledBytes: 0, isSpooling: false }), {
    timeout: 120_000,
    interval: 5,
  })
const close = (queue: Queue) => queue.close(AbortSignal.timeout(60_000))
const inSeries = (batches: readonly Batch[], { stream, target }: Batch) => {
  const { symbol } = target as { readonly symbol: string }
  return batches.map(nameOf).filter((name) => name.startsWith(`${stream} ${symbol} `))
}

describe('the queue', () => {
  test('stores every batch, those of an instrument in their order, whenever the database does not take some', async () => {
    const step = fc.record({
      stream: fc.constantFrom('fills', 'candles', 'order_books'),
      symbol: fc.constantFrom('A', 'B', 'C'),
      isAwaited: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 20, maxLength: 60 }),
        fc.nat(6),
        fc.boolean(),
        async (steps, every, restarts) => {
          content = new DiskContent()
          stored = []
          let tries = 0
          refuses = () => every > 1 && tries++ % every === every - 1
          let queue = await openQueue()
          const given: Batch[] = []
          const writing: Promise<boolean>[] = []
          for (const [time, { stream, symbol, isAwaited }] of steps.entries()) {
            const batch = spooledBatch(stream, symbol, time)
            given.push(batch)
            writing.push(queue.write(batch))
            if (isAwaited) await writing.at(-1)
            if (restarts && time === 15) {
              expect(await Promise.all(writing)).not.toContain(false)
              await close(queue)
              queue = await openQueue()
            }
          }
          expect(await Promise.all(writing)).not.toContain(false)
          refuses = () => false
          await isDone(queue)
          await close(queue)
          for (const batch of given) {
            const names = inSeries(stored, batch)
            // A batch may be stored again, with those after it.
            expect(names.filter((name, index) => index === names.indexOf(name))).toEqual(inSeries(given, batch))
            expect(names.filter((name, index) => index === names.lastIndexOf(name))).toEqual(inSeries(given, batch))
          }
        },
      ),
      { numRuns: 30 },
    )
  })

  test('does not hold up other streams where one table fails', async () => {
    refuses = ({ stream }) => stream === 'candles'
    const queue = await openQueue(1_000_000)
    const candles = Array.from({ length: 300 }, (_, time) => spooledBatch('candles', `S${time}`, time))
    await Promise.all(candles.map((batch) => queue.write(batch)))
    for (let time = 0; time < 50; time++) await queue.write(spooledBatch('fills', 'S', time))
    expect(stored).toHaveLength(50)
    expect(queue.backlog().isSpooling).toBe(true)
    refuses = () => false
    await isDone(queue)
    expect(stored).toHaveLength(350)
    await close(queue)
  })

  test('leaves to the next recorder what the database does not take, without waiting for it', async () => {
    refuses = () => true
    const first = await openQueue()
    for (let time = 0; time < 30; time++) expect(await first.write(spooledBatch('fills', 'S', time))).toBe(true)
    await close(first)
    expect(content.spooledBytes).toBeGreaterThan(0)
    refuses = () => false
    const next = await openQueue()
    await next.write(spooledBatch('fills', 'S', 30))
    await isDone(next)
    expect(stored.map(({ requestTime }) => requestTime)).toEqual(Array.from({ length: 31 }, (_, time) => time))
    expect(stats.fills.rowsWritten).toBe(31)
    await close(next)
  })

  test('keeps what is on a disk that cannot be read for a moment', async () => {
    refuses = () => true
    const queue = await openQueue()
    for (let time = 0; time < 20; time++) await queue.write(spooledBatch('fills', 'S', time))
    readFailure = 'EMFILE'
    refuses = () => false
    await systemClock.sleep(50)
    readFailure = undefined
    await isDone(queue)
    expect(new Set(stored.map(nameOf)).size).toBe(20)
    await close(queue)
  })
})

describe('what neither the database nor the disk takes', () => {
  test('is counted; of snapshots one range a stream is noted when the database is back, of fills and candles none', async () => {
    isAway = true
    isFull = true
    const queue = await openQueue()
    for (const stream of ['tickers', 'fills', 'candles'] as const)
      for (let time = 1; time <= 3; time++) expect(await queue.write(spooledBatch(stream, 'S', time * 10))).toBe(false)
    expect([stats.tickers, stats.fills, stats.candles].map(({ rowsDropped }) => rowsDropped)).toEqual([3, 3, 3])
    isFull = false
    isAway = false
    // The next response shows that the database is back.
    expect(await queue.write(spooledBatch('fills', 'S', 40))).toBe(true)
    await isDone(queue)
    await vi.waitFor(() => expect(stats.tickers.gapsFound).toBe(1), 120_000)
    await close(queue)
    expect(gaps).toMatchObject([{ stream: 'tickers', category: 'SPOT', symbol: '*', range: { from: 10, to: 31 } }])
  })

  test('is lost, an open incident says at once, and names the disk; no text says that it waits there', async () => {
    isAway = true
    isFull = true
    const queue = await openQueue()
    expect(await queue.write(spooledBatch('fills', 'S', 10))).toBe(false)
    const lost = () => incidents.recent().find(({ what }) => what === 'lost responses')
    expect(lost()?.message).toMatch(/ENOSPC.*; free space on the disk that holds database\.dataDir$/)
    expect(incidents.recent().filter(({ message }) => message.includes('responses wait on the disk'))).toEqual([])
    isFull = false
    expect(await queue.write(spooledBatch('fills', 'S', 20))).toBe(true)
    expect(lost()?.until).toBeNull()
    aheadMs += 10_000
    expect(lost()?.until).not.toBeNull()
    await close(queue)
  })

  test('stays in one range while the database takes responses and no gap', async () => {
    isAway = true
    isFull = true
    const queue = await openQueue()
    for (const time of [10, 20]) {
      expect(await queue.write(spooledBatch('order_books', 'S', time))).toBe(false)
      refuses = ({ stream }) => stream === 'order_books'
      await vi.waitFor(async () => expect(await queue.write(spooledBatch('fills', 'S', time))).toBe(true), 120_000)
    }
    isAway = false
    expect(await queue.write(spooledBatch('fills', 'S', 30))).toBe(true)
    await close(queue)
    expect(gaps).toMatchObject([{ stream: 'order_books', range: { from: 10, to: 21 } }])
  })

  test('includes what was on the disk and had to make room there, which is reported', async () => {
    isAway = true
    const queue = await openQueue(3_000)
    for (let time = 0; time < 60; time++) expect(await queue.write(spooledBatch('tickers', 'S', time))).toBe(true)
    expect(dropped.length).toBeGreaterThan(0)
    expect(incidents.recent()).toMatchObject([{ what: 'lost responses', until: null }, { what: 'storing' }])
    expect(stats.tickers.rowsDropped).toBe(dropped.flatMap(({ rows }) => rows).length)
    isAway = false
    await isDone(queue)
    await close(queue)
    const kept = new Set(stored.map(({ requestTime }) => requestTime))
    const inGap = (time: number) => gaps.some(({ range }) => range.from <= time && time < range.to)
    for (let time = 0; time < 60; time++) expect(inGap(time) || kept.has(time)).toBe(true)
    expect(inGap(59)).toBe(false)
  })
})

test('a segment that stays unreadable is lost in the categories that its stream can have', async () => {
  const streams = ['taker_flow', 'tickers', 'instruments'] as const
  refuses = () => true
  const queue = await openQueue()
  for (const stream of streams) expect(await queue.write(spooledBatch(stream, 'S', 0))).toBe(true)
  readFailure = 'EIO'
  await vi.waitFor(() => {
    aheadMs += 60_000
    expect(new Set(gaps.map(({ stream }) => stream))).toEqual(new Set(streams))
  }, 120_000)
  await close(queue)
  const lost = (name: string) => gaps.flatMap(({ stream, category }) => (stream === name ? [category] : []))
  expect(lost('taker_flow')).toEqual(futuresCategories)
  expect(lost('tickers')).toEqual(tradedCategories)
  expect(lost('instruments')).toEqual(categories)
})
