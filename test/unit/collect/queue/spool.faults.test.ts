import { beforeEach, describe, expect, test, vi } from 'vitest'
import { type SetAside, Spool } from '../../../../src/collect/queue/spool.js'
import type { Batch } from '../../../../src/ledger/batch.js'
import { systemClock } from '../../../../src/runtime/clock.js'
import type { Disk } from '../../../../src/runtime/disk.js'
import { DiskContent, mountDisk } from '../../../simulation/memoryDisk.js'
import { drain, nameOf, spooledBatch } from '../../../support/spooledBatches.js'

let content: DiskContent
let dropped: Batch[]
let setAside: SetAside[]
let isFull: boolean
/** On a full disk, a number below 0.5 makes a write end early instead of failing. */
let chance: number
/** Called when the spool waits before it tries again. */
let waits: () => void
let readFailure: string | undefined
/** What reading waits for. */
let isReadable: Promise<void>
/** Part of the names of segments whose reading fails. */
let unreadable: string
/** Size of every segment, if it is not the true one. */
let sparseBytes: number | undefined
/** Number of segments whose reading has begun. */
let reads: number
let nowMs: number
/** How far the clock of this machine is wrong. Segments go by the service's. */
const aheadMs = 8 * 3_600_000
let spool: Spool

const open = (maxBytes = 1_000_000) => {
  const mounted = mountDisk(content, {
    isFull: () => isFull,
    readFailure: () => undefined,
    random: () => chance,
    work: () => Promise.resolve(),
  })
  const disk: Disk = {
    ...mounted,
    async stat(path) {
      const found = await mounted.stat(path)
      return { size: sparseBytes ?? found.size, isFile: () => found.isFile() }
    },
    async readFile(path) {
      if (readFailure !== undefined && path.includes(unreadable) && path.endsWith('.seg'))
        throw Object.assign(new Error(`${readFailure}: ${path}`), { code: readFailure })
      if (path.endsWith('.seg')) reads++
      await isReadable
      return mounted.readFile(path)
    },
  }
  return Spool.open({
    root: '/spool',
    maxBytes,
    disk,
    clock: {
      ...systemClock,
      now: () => nowMs + aheadMs,
      monotonicMs: () => nowMs,
      async sleep() {
        waits()
      },
    },
    serviceNow: () => nowMs,
    onDamage: () => {
      expect.unreachable('nothing is damaged')
    },
    onDropped: (batches) => dropped.push(...batches),
    onSetAside: (segment) => setAside.push(segment),
  })
}

beforeEach(async () => {
  content = new DiskContent()
  dropped = []
  setAside = []
  isFull = false
  chance = 0.5
  waits = () => undefined
  readFailure = undefined
  unreadable = ''
  sparseBytes = undefined
  isReadable = Promise.resolve()
  reads = 0
  nowMs = 1_760_000_000_000
  spool = await open()
})

/** Resolves when a segment is being read. Batches are packed in real time before that. */
const isReading = () => vi.waitFor(() => expect(reads).toBeGreaterThan(0), { timeout: 120_000, interval: 5 })
const book = (time: number) => spooledBatch('order_books', 'BTCUSDT', time)

describe('a segment that cannot be read', () => {
  test.each(['EMFILE', 'EIO', 'ESTALE'])('for a moment is kept and read later: %s', async (code) => {
    for (let time = 0; time < 5; time++) await spool.append(book(time))
    readFailure = code
    await expect(spool.takeOldest('order_books')).rejects.toThrow(code)
    nowMs += 30_000
    await expect(spool.takeOldest('order_books')).rejects.toThrow(code)
    readFailure = undefined
    expect(await drain(spool)).toEqual([0, 1, 2, 3, 4].map((time) => nameOf(book(time))))
    expect(setAside).toEqual([])
  })

  test('for long is set aside under another name, with the time of its batches, and the next one is read', async () => {
    await spool.append(book(nowMs - 1_000))
    await spool.takeOldest('order_books').then((segment) => segment && spool.release(segment, false))
    nowMs += 20_000
    const next = book(nowMs)
    await spool.append(next)
    readFailure = 'EIO'
    await expect(spool.takeOldest('order_books')).rejects.toThrow('EIO')
    nowMs += 60_000
    await expect(spool.takeOldest('order_books')).rejects.toThrow('EIO')
    readFailure = undefined
    expect(await drain(spool)).toEqual([nameOf(next)])
    expect(setAside).toMatchObject([{ stream: 'order_books' }])
    const { file, range } = setAside[0] as SetAside
    expect(content.files.get(file)?.length).toBeGreaterThan(0)
    expect(range.from).toBeLessThanOrEqual(1_760_000_000_000 - 1_000)
    expect(range.to).toBeGreaterThan(1_760_000_000_000)
    expect(range.to).toBeLessThanOrEqual(1_760_000_020_001)
    expect(spool.isEmpty).toBe(true)
  })

  test('because it is longer than any that a recorder writes ends without reading it', async () => {
    await spool.append(book(nowMs))
    sparseBytes = 1_500_000_000
    await expect(spool.takeOldest('order_books')).rejects.toThrow('has 1500000000 bytes, and may have 67108864')
    nowMs += 60_000
    expect(await spool.takeOldest('order_books')).toBeNull()
    expect(setAside).toMatchObject([{ stream: 'order_books' }])
    expect(reads).toBe(0)
  })

  test('because it is longer than any that a recorder writes takes no room from others', async () => {
    await spool.append(book(nowMs))
    await spool.close()
    sparseBytes = 20_000_000_000
    spool = await open()
    await Promise.all(Array.from({ length: 20 }, (_, time) => spool.append(book(time))))
    expect(dropped).toEqual([])
    expect(reads).toBe(0)
  })

  test('makes no room: what it holds could not be counted', async () => {
    await spool.close()
    spool = await open(800)
    readFailure = 'EMFILE'
    const appended = await Promise.allSettled(Array.from({ length: 20 }, (_, time) => spool.append(book(time))))
    expect(appended.some(({ status }) => status === 'rejected')).toBe(true)
    readFailure = undefined
    const kept = appended.flatMap(({ status }, time) => (status === 'fulfilled' ? [nameOf(book(time))] : []))
    expect(await drain(spool)).toEqual(kept)
    expect(dropped).toEqual([])
  })

  test('lets later ones make room, and is stored before those that stay', async () => {
    await spool.close()
    spool = await open(3_000)
    await spool.append(book(0))
    const first = await spool.takeOldest('order_books')
    if (first === null) return expect.unreachable('a segment was closed')
    await spool.release(first, false)
    readFailure = 'EIO'
    unreadable = first.name
    await expect(spool.takeOldest('order_books')).rejects.toThrow('EIO')
    for (let time = 1; time < 60; time++) await spool.append(book(time))
    expect(spool.bytes).toBeLessThanOrEqual(3_000)
    readFailure = undefined
    const kept = Array.from({ length: 60 }, (_, time) => nameOf(book(time)))
    expect(dropped.length).toBeGreaterThan(0)
    expect(await drain(spool)).toEqual(kept.filter((name) => !dropped.map(nameOf).includes(name)))
    expect(dropped.map(nameOf)).not.toContain(kept[0])
  })
})

test('segments have the order in which they were written, although the clock was set back', async () => {
  await spool.close()
  spool = await open(800)
  await spool.append(book(0))
  nowMs -= 3_600_000
  await spool.append(book(1))
  expect(await drain(spool)).toEqual([0, 1].map((time) => nameOf(book(time))))
})

describe('a spool that is full', () => {
  test('drops the oldest of what can be fetched again, then the oldest of the rest, and reports each batch', async () => {
    await spool.close()
    spool = await open(2_000)
    const appended: Batch[] = []
    for (let time = 0; time < 60; time++) {
      const batch = spooledBatch((['candles', 'order_books', 'tickers'] as const)[time % 3] ?? 'candles', 'S', time)
      appended.push(batch)
      await spool.append(batch)
    }
    expect(spool.bytes).toBeLessThan(2_400)
    const isCandles = ({ stream }: Batch) => stream === 'candles'
    expect(dropped.filter(isCandles).length).toBeGreaterThan(15)
    const kept = await drain(spool)
    expect([...kept, ...dropped.map(nameOf)].toSorted()).toEqual(appended.map(nameOf).toSorted())
    const others = dropped.filter((batch) => !isCandles(batch)).map(({ requestTime }) => requestTime)
    const oldestKept = Math.min(
      ...kept.filter((name) => !name.startsWith('candles')).map((n) => Number(n.split(' ')[2])),
    )
    expect(Math.max(...others)).toBeLessThan(oldestKept + 9)
  })

  test('keeps what is being read to be stored', async () => {
    await spool.close()
    spool = await open(800)
    for (let time = 0; time < 3; time++) await spool.append(book(time))
    let letRead = () => undefined as void
    isReadable = new Promise((resolve) => {
      letRead = resolve
    })
    const taking = spool.takeOldest('order_books')
    const appending = Promise.all(Array.from({ length: 20 }, (_, time) => spool.append(book(3 + time))))
    await new Promise((proceed) => setTimeout(proceed, 20))
    letRead()
    const taken = await Promise.all(((await taking)?.records ?? []).map((record) => spool.unpack(record)))
    await appending
    expect(taken.length).toBeGreaterThan(0)
    expect(dropped.length).toBeGreaterThan(0)
    expect(dropped.map(nameOf)).not.toEqual(expect.arrayContaining([nameOf(taken[0] as Batch)]))
  })

  test.each(['bound', 'disk'])(
    'keeps the order of a series while one of its batches waits for room: %s',
    async (lack) => {
      await spool.close()
      spool = await open(1_200)
      while (spool.bytes < 900) await spool.append(book(0))
      const noise = lack === 'bound' ? Array.from({ length: 80 }, (_, index) => (index * 7919) % 10_007) : []
      const given = [spooledBatch('candles', 'BTCUSDT', 1, { noise }), spooledBatch('candles', 'BTCUSDT', 2)] as const
      let letRead = () => undefined as void
      isReadable = new Promise((resolve) => {
        letRead = resolve
      })
      isFull = lack === 'disk'
      const appending = [spool.append(given[0])]
      await isReading()
      isFull = false
      appending.push(spool.append(given[1]))
      await systemClock.sleep(20)
      letRead()
      await Promise.all(appending)
      expect(dropped.length).toBeGreaterThan(0)
      expect((await drain(spool)).filter((name) => name.startsWith('candles'))).toEqual(given.map(nameOf))
    },
  )

  test('gives no segment to be stored while an older one is to make room, which stays if it cannot be read', async () => {
    await spool.close()
    spool = await open(800)
    for (let time = 0; spool.bytes < 600; time++) await spool.append(book(time))
    let failRead = (_: Error) => undefined as void
    isReadable = new Promise((_, reject) => {
      failRead = reject
    })
    const noise = Array.from({ length: 80 }, (_, index) => (index * 7919) % 10_007)
    const appending = spool.append(spooledBatch('candles', 'BTCUSDT', 1, { noise }))
    await isReading()
    isReadable = Promise.resolve()
    expect(await spool.takeOldest('order_books')).toBeNull()
    failRead(new Error('EIO'))
    await expect(appending).rejects.toThrow('EIO')
    expect((await drain(spool))[0]).toBe(nameOf(book(0)))
  })

  test('holds a series while one of its segments is being stored, although its newest one made room', async () => {
    await spool.close()
    spool = await open(800)
    const candle = (time: number) => spooledBatch('candles', 'BTCUSDT', time)
    await spool.append(candle(1))
    await spool.append(candle(2))
    const taken = await spool.takeOldest('candles')
    for (let time = 3; dropped.length === 0; time++) await spool.append(book(time))
    expect(dropped.map(nameOf)).toEqual([nameOf(candle(2))])
    expect(spool.holds(candle(3))).toBe(true)
    if (taken !== null) await spool.release(taken, true)
    expect(spool.holds(candle(3))).toBe(false)
  })

  test('counts what is about to be written', async () => {
    await spool.close()
    spool = await open(800)
    await Promise.all(Array.from({ length: 20 }, (_, time) => spool.append(book(time))))
    expect(spool.bytes).toBeLessThanOrEqual(800)
    expect(dropped.length).toBeGreaterThan(0)
  })

  test('gives up no more than what would make room, however long something else keeps the disk full', async () => {
    // Segments that are far larger than a response.
    const noise = Array.from({ length: 40_000 }, (_, index) => (index * 7919) % 10_007)
    for (let time = 0; time < 3; time++) {
      await spool.append({ ...book(time), rows: [{ noise }] })
      const segment = await spool.takeOldest('order_books')
      if (segment) await spool.release(segment, false)
    }
    const before = spool.bytes
    isFull = true
    for (let time = 0; time < 20; time++) await expect(spool.append(book(time))).rejects.toThrow(/space|bytes could be/)
    expect(dropped.length).toBeLessThanOrEqual(2)
    expect(spool.bytes).toBeGreaterThan(before / 3)
    expect(content.files.size).toBeLessThan(8)
    isFull = false
    await spool.append(book(3))
  })

  test.each([
    ['fails', 0.5],
    ['ends early', 0.4],
  ])('a write that %s keeps nothing, and what comes later is kept', async (_, drawn) => {
    chance = drawn
    await spool.append(book(0))
    isFull = true
    await expect(spool.append(book(1))).rejects.toMatchObject({ code: 'ENOSPC' })
    isFull = false
    await spool.append(book(2))
    expect([...dropped.map(nameOf), ...(await drain(spool))]).toEqual([nameOf(book(0)), nameOf(book(2))])
  })

  test('keeps all that it has while something else fills the disk for a moment', async () => {
    await spool.append(book(0))
    isFull = true
    waits = () => {
      isFull = false
    }
    await spool.append(book(1))
    expect(dropped).toEqual([])
    expect(await drain(spool)).toEqual([book(0), book(1)].map(nameOf))
  })

  test('is opened although its disk has no room', async () => {
    await spool.append(book(0))
    await spool.close()
    isFull = true
    spool = await open()
    expect(await drain(spool)).toEqual([nameOf(book(0))])
  })
})
