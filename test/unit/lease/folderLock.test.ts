import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, expect, test } from 'vitest'
import { lockFolder, untilFolderIsFree } from '../../../src/lease/folderLock.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { systemDisk } from '../../../src/runtime/disk.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const folder = temporaryFolder('folder-lock')
afterEach(async () => {
  for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true })
})

const options = { clock: systemClock, disk: systemDisk }

test('of many commands one at a time has the lock', async () => {
  const dataDir = join(folder, 'many')
  let most = 0
  let now = 0
  const ask = async () => {
    const lock = await lockFolder(dataDir, options)
    most = Math.max(most, ++now)
    expect(lock.check()).toBe(true)
    await sleep(10)
    now--
    await lock.release()
    expect(lock.check()).toBe(false)
  }
  await Promise.all(Array.from({ length: 8 }, ask))
  expect(most).toBe(1)
  expect(await readdir(folder, { recursive: true })).not.toContainEqual(expect.stringContaining('sending'))
})

test('a folder that was made for the lock is removed with it, and one that was there stays', async () => {
  const [made, there] = [join(folder, 'made', 'for', 'it'), join(folder, 'there')]
  await mkdir(there)
  for (const dataDir of [made, there]) await (await lockFolder(dataDir, options)).release()
  expect(await readdir(folder)).toEqual(['there'])
})

test('a recorder waits for a command that has the lock, and no longer', async () => {
  const lock = await lockFolder(folder, options)
  let isFree = false
  const waiting = untilFolderIsFree(folder, options).then(() => (isFree = true))
  await sleep(300)
  expect(isFree).toBe(false)
  await lock.release()
  await waiting
})

test('the lock of a process that was killed counts for nothing, and is removed', async () => {
  await writeFile(join(folder, 'sending.999999999-0dc80916-2495913-b3b28787.lock'), '')
  await untilFolderIsFree(folder, options)
  expect(await readdir(folder)).toEqual([])
})

test('who waits for the lock can be sent home, and leaves no file', async () => {
  const lock = await lockFolder(folder, options)
  await expect(lockFolder(folder, { ...options, signal: AbortSignal.timeout(200) })).rejects.toThrow('timeout')
  await lock.release()
  expect(await readdir(folder)).toEqual([])
})
