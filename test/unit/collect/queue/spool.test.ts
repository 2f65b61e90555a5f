import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, mkdtemp, readdir, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { scanRecords } from '../../../../src/collect/queue/segmentWriter.js'
import { Spool } from '../../../../src/collect/queue/spool.js'
import { drain, nameOf, spooledBatch } from '../../../support/spooledBatches.js'
import { systemClock } from '../../../../src/runtime/clock.js'
import { groupBy } from '../../../../src/runtime/groupBy.js'
import { systemDisk } from '../../../../src/runtime/disk.js'

let root: string
let damages: { readonly file: string; readonly stretches: number; readonly bytes: number }[]

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'market-recorder-spool-'))
  damages = []
})
afterEach(() => rm(root, { recursive: true, force: true }))

/** An eighth of `maxBytes` is the size of a segment. */
const open = (maxBytes = 10_000) =>
  Spool.open({
    root,
    maxBytes,
    clock: systemClock,
    serviceNow: () => null,
    disk: systemDisk,
    onDamage: (damage) => damages.push(damage),
    onDropped: () => undefined,
    onSetAside: () => undefined,
  })
const files = async () => (await readdir(root)).filter((name) => name.endsWith('.seg')).toSorted()
const books = (count: number) =>
  Array.from({ length: count }, (_, time) => spooledBatch('order_books', 'BTCUSDT', time))

describe('the spool', () => {
  test('gives back what was appended, over many segments, each series in its order', async () => {
    const spool = await open()
    const given = Array.from({ length: 60 }, (_, time) =>
      spooledBatch(time % 3 === 0 ? 'candles' : 'fills', `S${time % 5}`, time),
    )
    await Promise.all(given.map((batch) => spool.append(batch)))
    expect((await files()).length).toBeGreaterThan(1)
    expect(spool.bytes).toBeGreaterThan(0)
    const bySeries = (names: readonly string[]) => groupBy(names, (name) => name.replace(/ \d+$/, ''))
    expect(bySeries(await drain(spool))).toEqual(bySeries(given.map(nameOf)))
    expect(spool).toMatchObject({ isEmpty: true, bytes: 0 })
    expect(await files()).toEqual([])
    await spool.close()
  })

  test('knows of which series it holds batches', async () => {
    const spool = await open()
    const [btc, eth] = [spooledBatch('fills', 'BTCUSDT', 1), spooledBatch('fills', 'ETHUSDT', 1)]
    const appending = spool.append(btc)
    expect([spool.holds(btc), spool.holds(eth)]).toEqual([true, false])
    await appending
    expect([spool.holds(btc), spool.holds(eth)]).toEqual([true, false])
    await spool.close()
    // What is in segments of others is not known.
    const next = await open()
    expect([next.holds(btc), next.holds(eth)]).toEqual([true, true])
    await drain(next)
    expect([next.holds(btc), next.holds(eth)]).toEqual([false, false])
    await next.close()
  })

  test('is for its owner alone', async () => {
    const own = join(root, 'own')
    root = own
    const spool = await open()
    await spool.append(spooledBatch('fills', 'BTCUSDT', 1))
    const modes = [own, ...(await files()).map((name) => join(own, name))].map(async (path) => (await stat(path)).mode)
    expect((await Promise.all(modes)).map((mode) => mode & 0o777)).toEqual([0o700, 0o600])
    await spool.close()
  })

  test('any damage to any file costs the damaged records only, is reported, and stops nothing', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 30 }),
        fc.array(fc.record({ file: fc.nat(), place: fc.nat(), kind: fc.constantFrom('flip', 'truncate', 'noise') }), {
          maxLength: 3,
        }),
        async (count, harms) => {
          const spool = await open(5_000)
          for (const batch of books(count)) await spool.append(batch)
          await spool.close()
          damages = []
          const names = await files()
          const bytesOf = () => Promise.all(names.map((name) => readFile(join(root, name))))
          const before = await bytesOf()
          const bodies = before.flatMap((bytes) => scanRecords(bytes).records)
          for (const { file, place, kind } of harms) {
            const path = join(root, names[file % names.length] ?? '')
            const bytes = await readFile(path)
            const at = place % Math.max(1, bytes.length)
            if (kind === 'flip' && bytes.length > 0) {
              bytes[at] = (bytes[at] ?? 0) ^ 1
              await writeFile(path, bytes)
            } else if (kind === 'truncate') await truncate(path, at)
            else await appendFile(path, 'noise')
          }
          // Compared only now: two harms can undo each other.
          const after = await bytesOf()
          const isUntouched = (body: Buffer) =>
            before.some((bytes, index) => {
              const at = bytes.indexOf(body)
              const [start, end] = [at - headerBytes, at + body.length]
              return at !== -1 && bytes.subarray(start, end).equals(after[index]?.subarray(start, end) ?? Buffer.of())
            })
          const all = books(count).map(nameOf)
          const untouched = all.filter((_, index) => isUntouched(bodies[index] as Buffer))
          const last = await open()
          const read = await drain(last)
          await last.close()
          expect(untouched.filter((name) => !read.includes(name))).toEqual([])
          expect(read.filter((name) => !all.includes(name))).toEqual([])
          if (read.length < all.length && harms.every(({ kind }) => kind === 'flip'))
            expect(damages.length).toBeGreaterThan(0)
          await rm(root, { recursive: true, force: true })
        },
      ),
      { numRuns: 12 },
    )
  })

  test('a file of another name is no obstacle, and a segment of its own that vanished is reported', async () => {
    await writeFile(join(root, 'readme.txt'), 'not ours')
    await writeFile(join(root, '000000000000001-1-0.seg'), '')
    const spool = await open(800)
    for (const batch of books(3)) await spool.append(batch)
    const [, first = ''] = await files()
    await rm(join(root, first))
    expect(await drain(spool)).toEqual(books(3).map(nameOf).slice(1))
    expect(damages).toHaveLength(1)
    await spool.close()
  })

  test('damage to a segment is reported once, however often the segment is read', async () => {
    const before = await open()
    for (const batch of books(3)) await before.append(batch)
    await before.close()
    const [name = ''] = await files()
    const file = join(root, name)
    await writeFile(file, (await readFile(file)).subarray(0, -1))
    const spool = await open()
    for (let reads = 0; reads < 3; reads++) {
      const segment = await spool.takeOldest('order_books')
      expect(segment?.records).toHaveLength(2)
      if (segment !== null) await spool.release(segment, false)
    }
    expect(damages).toEqual([expect.objectContaining({ file, stretches: 1 })])
    await spool.close()
  })

  test('makes its folder again when somebody removes it, and loses what was in it alone', async () => {
    const spool = await open()
    await spool.append(spooledBatch('fills', 'BTCUSDT', 1))
    await rm(root, { recursive: true })
    const later = [spooledBatch('fills', 'BTCUSDT', 2), spooledBatch('tickers', 'BTCUSDT', 3)]
    for (const batch of later) await spool.append(batch)
    expect((await files()).length).toBe(2)
    expect((await drain(spool)).toSorted()).toEqual(later.map(nameOf).toSorted())
    await spool.close()
  })

  test('that cannot be written to says so', async () => {
    await writeFile(join(root, 'file'), '')
    root = join(root, 'file')
    await expect(open()).rejects.toThrow(/cannot be used: .*; make database.dataDir a writable folder/)
    root = join(root, '..')
  })
})

describe('recorders that share a folder', () => {
  test('have what is theirs while they run, and take over what one leaves that ends', async () => {
    const first = await open(800)
    const second = await open(800)
    for (const batch of books(3)) await first.append(batch)
    const writtenAt = Date.now()
    await second.claimOrphans()
    expect(second.isEmpty).toBe(true)
    await first.close()
    // Segments of two recorders that begin in one millisecond have no order. Names of one may run ahead by one each.
    await vi.waitUntil(() => Date.now() > writtenAt + 3, 120_000)
    await second.append(spooledBatch('order_books', 'BTCUSDT', 3))
    await second.claimOrphans()
    await second.claimOrphans()
    expect(await drain(second)).toEqual(books(4).map(nameOf))
    await second.close()
  })

  test('take over what a process left that is gone', async () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
    const gone = await open()
    await gone.append(spooledBatch('order_books', 'BTCUSDT', 0))
    await gone.close()
    const [name = ''] = await files()
    // The number is in use, by a process that started at another time.
    const other = name.replace(/order_books\..*$/, `order_books.${child.pid}-00000000-1-0123abcd.seg`)
    await rename(join(root, name), join(root, other))
    const spool = await open()
    expect(await drain(spool)).toEqual(['order_books BTCUSDT 0'])
    child.kill('SIGKILL')
    await once(child, 'exit')
    await spool.close()
  })
})

/** Before each record. */
const headerBytes = 16
