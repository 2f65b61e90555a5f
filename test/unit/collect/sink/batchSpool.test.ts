import { beforeEach, expect, test } from 'vitest'
import { BatchSpool } from '../../../../src/collect/sink/batchSpool.js'
import type { Batch } from '../../../../src/store/batch/batch.js'
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
let unnoted: Batch[]
let isFull: boolean
let isKept: boolean
beforeEach(async () => {
  isFull = false
  isKept = true
  const disk = mountDisk(new DiskContent(), {
    isFull: () => isFull,
    random: () => 0.5,
    work: () => Promise.resolve(),
  })
  spool = await BatchSpool.open({ root: '/spool', maxBytes: 1_000_000, onDamage: () => undefined, disk })
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
