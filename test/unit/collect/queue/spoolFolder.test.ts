import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { takeSpoolFolder } from '../../../../src/collect/queue/spoolFolder.js'

let root: string
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'market-recorder-spool-'))
})
afterEach(() => rm(root, { recursive: true, force: true }))

describe('the folder of a recorder', () => {
  test('two recorders have a folder each', async () => {
    const first = await takeSpoolFolder(root, ['lane'])
    await writeFile(join(first.directory, 'lane', 'a.seg'), '')
    const second = await takeSpoolFolder(root, ['lane'])
    expect(await readdir(join(second.directory, 'lane'))).toEqual([])
    await second.release()
    await first.release()
  })

  test('what a stopped recorder left is taken over', async () => {
    const first = await takeSpoolFolder(root, ['lane'])
    await writeFile(join(first.directory, 'lane', 'a.seg'), '')
    await first.release()
    const second = await takeSpoolFolder(root, ['lane'])
    expect(await readdir(join(second.directory, 'lane'))).toEqual(['a.seg'])
    expect(await readdir(root)).toHaveLength(1)
    await second.release()
  })

  test('what a recorder left that has ended since is taken over when that is asked for', async () => {
    const ending = await takeSpoolFolder(root, ['lane'])
    const other = await takeSpoolFolder(root, ['lane'])
    const folder = await takeSpoolFolder(root, ['lane'])
    await writeFile(join(ending.directory, 'lane', 'a.seg'), '')
    await writeFile(join(other.directory, 'lane', 'b.seg'), '')
    await ending.release()
    expect(await readdir(join(folder.directory, 'lane'))).toEqual([])
    await folder.adopt()
    expect(await readdir(join(folder.directory, 'lane'))).toEqual(['a.seg'])
    await other.release()
    await folder.release()
  })

  test('what a process left that is gone is taken over, what a running one has is not', async () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
    const gone = join(root, `${child.pid}-00000000-1.0123abcd`, 'lane')
    await mkdir(gone, { recursive: true })
    await writeFile(join(gone, 'a.seg'), '')
    const folder = await takeSpoolFolder(root, ['lane'])
    // The number is in use, by a process that started at another time.
    expect(await readdir(join(folder.directory, 'lane'))).toEqual(['a.seg'])
    child.kill('SIGKILL')
    await once(child, 'exit')
    await folder.release()
  })

  test('an empty folder is removed with its owner, and foreign names are left alone', async () => {
    await mkdir(join(root, 'notes'))
    const folder = await takeSpoolFolder(root, ['lane'])
    await folder.release()
    expect(await readdir(root)).toEqual(['notes'])
  })
})
