import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { BatchSpool } from '../../../../src/collect/queue/batchSpool.js'
import { gapsOfDropped } from '../../../../src/collect/queue/droppedBatches.js'
import type { Batch } from '../../../../src/ledger/batch/batch.js'

let root: string
let spool: BatchSpool
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'market-recorder-full-spool-'))
  spool = await BatchSpool.open({ root, maxBytes: 800, segmentBytes: 300, onDamage: () => undefined })
})
afterEach(async () => {
  await spool.close()
  await rm(root, { recursive: true, force: true })
})

const book = (symbol: string, requestTime: number): Batch => ({
  stream: 'order_books',
  target: { category: 'SPOT', symbol },
  requestTime,
  receivedAt: requestTime,
  rows: [{ symbol, requestTime }],
  rejected: [],
  proven: [],
  gaps: [],
  isPart: false,
})

test('what is appended comes onto the disk, though notes of gaps fill the spool by themselves', async () => {
  // Of every one a note stays, and all notes together need more room than there is.
  for (let index = 0; index < 80; index++) await spool.append(book(`S${index}USDT`, index))
  expect(spool.bytes).toBeGreaterThan(800)
  const known = new Set<string>()
  for (;;) {
    const oldest = await spool.oldest('unrepeatable')
    if (oldest === null) break
    for (const record of oldest.segment.records) {
      for (const { gaps, target } of await spool.decode(record)) {
        for (const { symbol } of gaps) known.add(symbol)
        known.add((target as { readonly symbol: string }).symbol)
      }
    }
    await spool.release(oldest, true)
  }
  expect(known.size).toBe(80)
})

test('notes that are given on again and again stay one gap for each series; other gaps stay apart', () => {
  const note = (from: number) => gapsOfDropped([book('BTCUSDT', from)])
  const other = { category: 'SPOT', symbol: 'BTCUSDT', reason: 'no overlap' } as const
  const withGaps: Batch = {
    ...book('BTCUSDT', 40),
    gaps: [
      { ...other, range: { from: 5, to: 6 } },
      { ...other, range: { from: 8, to: 9 } },
    ],
  }
  const [given, ...none] = gapsOfDropped([...note(10), ...note(20), ...note(30), withGaps])
  expect(none).toEqual([])
  expect(given?.gaps.map(({ range, reason }) => [range.from, range.to, reason])).toEqual([
    [10, 41, 'dropped because the spool was full'],
    [5, 6, 'no overlap'],
    [8, 9, 'no overlap'],
  ])
})
