import { beforeEach, expect, test } from 'vitest'
import { BatchSpool, type SpooledSegment } from '../../../../src/collect/queue/batchSpool.js'
import type { Batch } from '../../../../src/ledger/batch/batch.js'
import { DiskContent, mountDisk } from '../../../simulation/memoryDisk.js'

const requestTime = 1_760_000_000_000
const book: Batch = {
  stream: 'order_books',
  target: { category: 'SPOT', symbol: 'BTCUSDT' },
  requestTime,
  receivedAt: requestTime,
  rows: [{ anything: true }],
  rejected: [],
  proven: [],
  gaps: [],
  isPart: false,
}

let spool: BatchSpool
let content: DiskContent
let dropped: number
let unnoted: Batch[]
let isFull: boolean
let isKept: boolean
const open = () => {
  const disk = mountDisk(content, { isFull: () => isFull, random: () => 0.5, work: () => Promise.resolve() })
  return BatchSpool.open({ root: '/spool', maxBytes: 1_000_000, onDamage: () => undefined, disk })
}
beforeEach(async () => {
  isFull = false
  isKept = true
  content = new DiskContent()
  dropped = 0
  spool = await open()
  spool.onDropped = (batches) => void (dropped += batches.length)
  unnoted = []
  spool.onUnnoted = async (notes) => {
    unnoted.push(...notes)
    return isKept
  }
  await spool.append(book)
})

const range = { from: requestTime, to: requestTime + 1 }

test('keeps a note on disk of what it drops', async () => {
  expect(await spool.dropOldest('bound')).toBeGreaterThan(0)
  expect(unnoted).toEqual([])
  const kept = await spool.oldest('unrepeatable')
  const [note] = await spool.decode(kept?.segment.records[0] as Buffer)
  expect(note).toMatchObject({ rows: [], gaps: [{ symbol: 'BTCUSDT', range }] })
})

test('hands the note back when the disk has no room for it either', async () => {
  isFull = true
  expect(await spool.dropOldest('disk')).toBeGreaterThan(0)
  expect(spool.isEmpty).toBe(true)
  expect(unnoted).toMatchObject([{ rows: [], gaps: [{ symbol: 'BTCUSDT', range }] }])
})

test('gives up nothing of which no note can be kept', async () => {
  isFull = true
  isKept = false
  expect(await spool.dropOldest('disk')).toBe(0)
  const oldest = await spool.oldest('unrepeatable')
  expect(await spool.decode(oldest?.segment.records[0] as Buffer)).toEqual([book])
})

test('gives up no more than what would make room, however long something else keeps the disk full', async () => {
  // Segments that are far larger than a response.
  const big = { ...book, rows: [{ noise: Array.from({ length: 40_000 }, (_, index) => (index * 7919) % 10_007) }] }
  for (let index = 0; index < 3; index++) {
    await spool.append(big)
    // Ends its segment.
    await spool.release((await spool.oldest('unrepeatable')) as SpooledSegment, false)
  }
  const before = spool.bytes
  isFull = true
  for (let index = 0; index < 20; index++) await expect(spool.append(book)).rejects.toThrow(/space|bytes could be/)
  expect(dropped).toBeLessThanOrEqual(2)
  expect(spool.bytes).toBeGreaterThan(before / 3)
  expect(content.files.size).toBeLessThan(8)
  isFull = false
  await spool.append(book)
})

test('what is kept in the reserve is with the spool that is opened next', async () => {
  isFull = true
  const note = { ...book, rows: [] }
  expect(await spool.keep([note])).toBe(true)
  await spool.close()
  const next = await open()
  expect(next.takeKeptBefore()).toEqual([note])
  expect(next.takeKeptBefore()).toEqual([])
})
