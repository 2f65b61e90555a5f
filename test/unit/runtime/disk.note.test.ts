import { execFileSync } from 'node:child_process'
import fs from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { beforeEach, expect, test } from 'vitest'
import { type Disk, readNote, requireOwnFolder, systemDisk, writeNote } from '../../../src/runtime/disk.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const folder = temporaryFolder('disk-note')
const lines: string[] = []
const logger = pino({ level: 'debug', base: null }, { write: (line: string) => void lines.push(line) })
const options = { logger, what: 'test' }
beforeEach(() => void lines.splice(0))

/** A disk of which the first call of a kind takes until it is told to go on. */
function heldUp(slow: 'writeFile' | 'rename' | 'mkdir') {
  let goOn = () => {}
  let isFirst = true
  const held = new Promise<void>((resolve) => {
    goOn = resolve
  })
  const call = systemDisk[slow].bind(systemDisk) as (...parameters: unknown[]) => Promise<unknown>
  const disk: Disk = {
    ...fs,
    [slow]: async (...parameters: unknown[]) => {
      if (isFirst && parameters.some((path) => String(path).includes('note.json') || slow === 'mkdir')) {
        isFirst = false
        await held
      }
      return call(...parameters)
    },
  }
  return { disk, goOn: () => goOn() }
}

test.each(['mkdir', 'writeFile', 'rename'] as const)(
  'of notes in quick succession the last one stays, also when the %s of the first takes long',
  async (slow) => {
    const file = join(folder, slow, 'note.json')
    const { disk, goOn } = heldUp(slow)
    const writing = [1, 2, 3].map((number) => writeNote(disk, file, { number }, options))
    await writeNote(disk, join(folder, slow, 'other.json'), { number: 7 }, options)
    goOn()
    await Promise.all(writing)
    expect(await readNote(disk, file)).toEqual({ number: 3 })
    expect((await fs.readdir(join(folder, slow))).toSorted()).toEqual(['note.json', 'other.json'])
    expect(lines).toEqual([])
  },
)

test('a pipe and a large file in the place of a note are no notes', async () => {
  const file = (name: string) => join(folder, name)
  execFileSync('mkfifo', [file('pipe.json')])
  await fs.writeFile(file('large.json'), `"${'x'.repeat(2_000_000)}"`)
  expect(await Promise.all(['pipe.json', 'large.json'].map((name) => readNote(systemDisk, file(name))))).toEqual([
    null,
    null,
  ])
})

test('a note that cannot be written keeps none after it from being written', async () => {
  const file = join(folder, 'failing', 'note.json')
  let isFull = true
  const disk: Disk = {
    ...fs,
    writeFile: async (...parameters: Parameters<Disk['writeFile']>) => {
      if (isFull) throw new Error('no room')
      return systemDisk.writeFile(...parameters)
    },
  }
  const first = writeNote(disk, file, { number: 1 }, options)
  await first
  isFull = false
  await writeNote(disk, file, { number: 2 }, options)
  expect(await readNote(disk, file)).toEqual({ number: 2 })
  expect(lines).toHaveLength(1)
})

test('a planted link is neither followed nor kept, wherever a note is written', async () => {
  const own = await fs.mkdtemp(join(folder, 'links-'))
  const [target, note] = [join(own, 'precious'), join(own, 'note.json')]
  await fs.writeFile(target, 'as it was')
  for (const link of [note, `${note}.${process.pid}`]) await fs.symlink(target, link)
  expect(await writeNote(systemDisk, note, { a: 1 }, options)).toBe(true)
  expect(await fs.readFile(target, 'utf8')).toBe('as it was')
  expect((await fs.lstat(note)).isFile()).toBe(true)
})

test('a folder that everybody may write to is refused, and so is that of another user', async ({ skip }) => {
  const own = await fs.mkdtemp(join(folder, 'own-'))
  requireOwnFolder(join(own, 'missing'))
  requireOwnFolder(own)
  await fs.chmod(own, 0o777)
  expect(() => requireOwnFolder(own)).toThrow('run chmod o-w')
  await fs.chmod(own, 0o700)
  skip(process.getuid?.() !== 0, 'only root can make a folder of another user')
  await fs.chown(own, 4_711, 4_711)
  expect(() => requireOwnFolder(own)).toThrow('belongs to another user (4711)')
})
