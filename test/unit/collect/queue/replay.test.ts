import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Batch } from '../../../../src/ledger/batch/batch.js'
import { BatchSpool } from '../../../../src/collect/queue/batchSpool.js'
import { Replay } from '../../../../src/collect/queue/replay.js'
import type { StreamName } from '../../../../src/market/stream.js'
import { systemClock } from '../../../../src/runtime/clock.js'

let root: string
let spool: BatchSpool
/** How many batches were stored at once, each time. */
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'market-recorder-replay-'))
  spool = await BatchSpool.open({ root, maxBytes: 1_000_000, segmentBytes: 300, onDamage: () => undefined })
})
afterEach(async () => {
  vi.restoreAllMocks()
  await spool.close()
  await rm(root, { recursive: true, force: true })
})

const batch = (stream: StreamName, symbol: string, index: number): Batch => ({
  stream,
  target: { category: 'SPOT', symbol },
  requestTime: index,
  receivedAt: index,
  rows: [{ index }],
  rejected: [],
  proven: [],
  gaps: [],
  isPart: false,
})
const nameOf = ({ stream, target, requestTime }: Batch) =>
  `${stream} ${(target as { symbol: string }).symbol} ${requestTime}`

/** Replays everything; `fails` says which attempts find the database away. */
async function replayAll(fails: (attempt: number) => boolean = () => false): Promise<string[]> {
  const stored: string[] = []
  let attempts = 0
  await new Promise<void>((resolve) => {
    const replay = new Replay({
      spool,
      clock: { ...systemClock, sleep: (_ms, signal) => systemClock.sleep(1, signal) },
      parallel: 4,
      store: async (given) => {
        // One lane is much faster than the other.
        await systemClock.sleep(given.stream === 'candles' ? 10 : Math.random() * 3)
        if (fails(attempts++)) throw new Error('away')
        stored.push(nameOf(given))
      },
      probe: () => Promise.resolve(),
      onFailure: () => undefined,
      onDone: resolve,
    })
    replay.start()
  })
  return stored
}

describe('the replay', () => {
  test('stores every batch once, in order for each instrument', async () => {
    const given: string[] = []
    for (let index = 0; index < 60; index++) {
      for (const next of [batch('fills', `S${index % 3}`, index), batch('candles', `S${index % 3}`, index)]) {
        given.push(nameOf(next))
        await spool.append(next)
      }
    }
    const stored = await replayAll()
    expect(stored.toSorted()).toEqual(given.toSorted())
    for (const series of new Set(given.map((name) => name.replace(/ \d+$/, '')))) {
      const of = (names: string[]) => names.filter((name) => name.startsWith(`${series} `))
      expect(of(stored)).toEqual(of(given))
    }
    expect(spool.isEmpty).toBe(true)
  })

  test('goes on where it was when the database goes away in the middle', async () => {
    const given = Array.from({ length: 100 }, (_, index) => batch('fills', `S${index % 5}`, index))
    for (const next of given) await spool.append(next)
    const stored = await replayAll((attempt) => attempt % 7 === 6)
    expect(stored.toSorted()).toEqual(given.map(nameOf).toSorted())
  })

  test('tells segments of different lanes apart, though they were begun in the same millisecond', async () => {
    vi.spyOn(Date, 'now').mockReturnValue(1_760_000_000_000)
    const given = Array.from({ length: 40 }, (_, index) => batch(index % 2 === 0 ? 'fills' : 'candles', 'S', index))
    await Promise.all(given.map((next) => spool.append(next)))
    expect((await replayAll()).toSorted()).toEqual(given.map(nameOf).toSorted())
  })

  test('leaves everything else its turn while a response does not get to the disk', async () => {
    let looks = 0
    let isArriving = true
    vi.spyOn(spool, 'isEmpty', 'get').mockImplementation(() => !isArriving)
    vi.spyOn(spool, 'oldest').mockImplementation(async () => {
      looks++
      // A replay that takes every turn would go on for ever, and this test with it.
      if (looks > 10_000) isArriving = false
      return null
    })
    const replayed = replayAll()
    await systemClock.sleep(1)
    const looksUntilOthersHadATurn = looks
    isArriving = false
    await replayed
    expect(looksUntilOthersHadATurn).toBeLessThan(10_000)
  })
})
