import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Reserve } from '../../../../src/collect/queue/reserve.js'
import { DiskContent, mountDisk } from '../../../simulation/memoryDisk.js'

function aDisk(isFull = () => false) {
  const content = new DiskContent()
  const open = () => Reserve.open('/reserve', mountDisk(content, { isFull, random: () => 0, work: async () => {} }))
  return { content, open }
}

test('what was kept last is found by the next one, on a full disk, too', async () => {
  let isFull = false
  const { open } = aDisk(() => isFull)
  const first = await open()
  expect(await first.find()).toEqual([])
  isFull = true
  expect(await first.keep(Buffer.from('one'))).toBe(true)
  expect(await first.keep(Buffer.from('another'))).toBe(true)
  await first.close()
  const second = await open()
  expect(await second.find()).toEqual([Buffer.from('another')])
  expect(await second.keep(Buffer.from('a third'))).toBe(true)
  expect(await second.keep(new Uint8Array())).toBe(true)
  await second.close()
  expect(await (await open()).find()).toEqual([])
})

test('a power cut while something is written leaves that or what was kept before', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.uint8Array({ minLength: 1, maxLength: 300 }), { minLength: 2, maxLength: 6 }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      async (bodies, share) => {
        const content = new DiskContent()
        let isCut = false
        const disk = mountDisk(content, {
          isFull: () => false,
          random: () => share,
          // Everything is done but the last sync.
          work: (kind) => (isCut && kind === 'sync' ? new Promise(() => {}) : Promise.resolve()),
        })
        const reserve = await Reserve.open('/reserve', disk)
        await reserve.find()
        for (const body of bodies.slice(0, -1)) expect(await reserve.keep(body)).toBe(true)
        isCut = true
        void reserve.keep(bodies.at(-1) as Uint8Array)
        await new Promise(setImmediate)
        content.cutPower(() => share)
        const found = await (await Reserve.open('/reserve', disk)).find()
        const [before, last] = bodies.slice(-2).map((body) => Buffer.from(body).toString('hex'))
        expect([[before], [last]]).toContainEqual(found.map((body) => body.toString('hex')))
      },
    ),
    { numRuns: 200 },
  )
})

test('what others left is found once, and stays until something is kept', async () => {
  const { content, open } = aDisk()
  const left = new Map(content.files)
  for (const text of ['mine', 'theirs']) {
    const reserve = await open()
    await reserve.find()
    await reserve.keep(Buffer.from(text))
    await reserve.close()
    for (const file of content.files.values()) left.set(`/reserve/${text}.reserve`, file)
    content.files.clear()
  }
  // As a folder that is taken over brings them along.
  for (const [path, file] of left) content.files.set(path, file)
  const reserve = await open()
  const texts = async () => (await reserve.find()).map(String).toSorted()
  expect(await texts()).toEqual(['mine', 'theirs'])
  expect(await texts()).toEqual([])
  expect([...content.files.keys()].filter((path) => path.startsWith('/reserve/'))).toHaveLength(2)
  expect(await reserve.keep(Buffer.from('both'))).toBe(true)
  expect([...content.files.keys()].filter((path) => path.startsWith('/reserve/'))).toHaveLength(1)
})

test('without room from the beginning, or for too much, it says that it keeps nothing', async () => {
  let isFull = true
  const { content, open } = aDisk(() => isFull)
  const reserve = await open()
  await reserve.find()
  expect(await reserve.keep(Buffer.from('note'))).toBe(false)
  expect(content.files.size).toBe(0)
  isFull = false
  expect(await reserve.keep(Buffer.alloc(300_000))).toBe(false)
  expect(await reserve.keep(Buffer.from('note'))).toBe(true)
})
