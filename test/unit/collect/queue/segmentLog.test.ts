import { appendFile, mkdtemp, readdir, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Damage, SegmentLog } from '../../../../src/collect/queue/segmentLog.js'

let directory: string
let damages: Damage[]

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'market-recorder-spool-'))
  damages = []
})
afterEach(() => rm(directory, { recursive: true, force: true }))

const open = (segmentBytes = 200) =>
  SegmentLog.open(directory, { segmentBytes, onDamage: (damage) => damages.push(damage) })

/** Everything in the log, oldest first; the log is empty afterwards. */
async function drain(log: SegmentLog): Promise<string[]> {
  const texts: string[] = []
  for (let segment = await log.oldest(); segment !== null; segment = await log.oldest()) {
    texts.push(...segment.records.map((record) => record.toString()))
    await log.remove(segment)
  }
  return texts
}

/** Before each record. */
const headerBytes = 16
/** None is part of another one. */
const numbered = (count: number) => Array.from({ length: count }, (_, i) => `record ${String(i).padStart(2, '0')}`)
const segmentFiles = async () => (await readdir(directory)).filter((name) => name.endsWith('.seg')).toSorted()

describe('the log in segments', () => {
  test('gives back in order what was appended, over many segments', async () => {
    const log = await open()
    const texts = numbered(50)
    await Promise.all(texts.map((text) => log.append(Buffer.from(text))))
    for (const text of texts) await log.append(Buffer.from(text))
    expect((await segmentFiles()).length).toBeGreaterThan(5)
    expect(log.bytes).toBeGreaterThan(0)
    expect(await drain(log)).toEqual([...texts, ...texts])
    expect(log.isEmpty).toBe(true)
    expect(log.bytes).toBe(0)
    expect(await segmentFiles()).toEqual([])
  })

  test('what is written is for its owner alone', async () => {
    const own = join(directory, 'own')
    const log = await SegmentLog.open(own, { segmentBytes: 200, onDamage: (damage) => damages.push(damage) })
    await log.append(Buffer.from('record'))
    const modes = [own, ...(await readdir(own)).map((name) => join(own, name))].map(
      async (path) => (await stat(path)).mode,
    )
    expect((await Promise.all(modes)).map((mode) => mode & 0o777)).toEqual([0o700, 0o600])
    await log.close()
  })

  test('what one process appended the next one reads, and goes on behind it', async () => {
    const first = await open()
    for (const text of numbered(10)) await first.append(Buffer.from(text))
    // Not closed: the process was killed.
    const second = await open()
    expect(second.isEmpty).toBe(false)
    await second.append(Buffer.from('later'))
    expect(await drain(second)).toEqual([...numbered(10), 'later'])
    await first.close()
  })

  test('segments that are moved to it come at their places in the order, each once', async () => {
    const elsewhere = await mkdtemp(join(tmpdir(), 'market-recorder-spool-'))
    const other = await SegmentLog.open(elsewhere, { segmentBytes: 60, onDamage: (damage) => damages.push(damage) })
    const texts = numbered(12)
    for (const text of texts.slice(0, 6)) await other.append(Buffer.from(text))
    await other.close()
    // Later by its clock than what was written elsewhere.
    await sleep(2)
    const log = await open(60)
    for (const text of texts.slice(6, 9)) await log.append(Buffer.from(text))
    for (const name of await readdir(elsewhere)) await rename(join(elsewhere, name), join(directory, name))
    // The one that is being begun is on the disk already.
    const appending = texts.slice(9).map((text) => log.append(Buffer.from(text)))
    await Promise.all([log.findMoved(), log.findMoved(), ...appending])
    expect(await drain(log)).toEqual(texts)
    expect(damages).toEqual([])
    await rm(elsewhere, { recursive: true })
  })

  test('a segment that is worked on stays out of the way of the next one', async () => {
    const log = await open(60)
    for (const text of numbered(4)) await log.append(Buffer.from(text))
    const first = await log.oldest()
    const second = await log.oldest(new Set([first?.name ?? '']))
    expect(second?.name).not.toBe(first?.name)
    await log.close()
  })

  test('any damage to any file costs the damaged records only, is reported, and stops nothing', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 30 }),
        fc.array(fc.record({ file: fc.nat(), place: fc.nat(), kind: fc.constantFrom('flip', 'truncate', 'noise') }), {
          maxLength: 3,
        }),
        async (count, harms) => {
          const log = await open()
          const texts = numbered(count)
          for (const text of texts) await log.append(Buffer.from(text))
          await log.close()
          damages = []
          const files = await segmentFiles()
          const bytesOf = () => Promise.all(files.map((name) => readFile(join(directory, name))))
          const before = await bytesOf()
          for (const { file, place, kind } of harms) {
            const path = join(directory, files[file % files.length] ?? '')
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
          const isUntouched = (text: string) =>
            before.some((bytes, i) => {
              const at = bytes.indexOf(text)
              const [start, end] = [at - headerBytes, at + text.length]
              return at !== -1 && bytes.subarray(start, end).equals(after[i]?.subarray(start, end) ?? Buffer.of())
            })
          const untouched = texts.filter(isUntouched)
          const next = await open()
          const read = await drain(next)
          expect(untouched.filter((text) => !read.includes(text))).toEqual([])
          expect(read.filter((text) => !texts.includes(text))).toEqual([])
          if (read.length < texts.length && harms.every(({ kind }) => kind === 'flip'))
            expect(damages.length).toBeGreaterThan(0)
          await rm(directory, { recursive: true, force: true })
        },
      ),
      { numRuns: 60 },
    )
  })

  test('an empty segment and a foreign file are no obstacle', async () => {
    const log = await open()
    await log.append(Buffer.from('one'))
    await log.close()
    await writeFile(join(directory, '000000000000001-1-0.seg'), '')
    await writeFile(join(directory, 'readme.txt'), 'not ours')
    expect(await drain(await open())).toEqual(['one'])
    expect(damages).toEqual([])
  })

  test('a segment that vanished while it was waiting is reported and left out', async () => {
    const log = await open(20)
    for (const text of numbered(3)) await log.append(Buffer.from(text))
    const [first = ''] = await segmentFiles()
    await rm(join(directory, first))
    expect(await drain(log)).toEqual(numbered(3).slice(1))
    expect(damages).toHaveLength(1)
  })
})
