import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, expect, test, vi } from 'vitest'
import { systemClock } from '../../../src/runtime/clock.js'
import { systemDisk } from '../../../src/runtime/disk.js'
import { lockFolder, untilUnlocked } from '../../../src/runtime/folderLock.js'
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
    const unlock = await lockFolder(dataDir, 'sending', options)
    most = Math.max(most, ++now)
    await sleep(10)
    now--
    await unlock()
  }
  await Promise.all(Array.from({ length: 8 }, ask))
  expect(most).toBe(1)
  expect(await readdir(folder, { recursive: true })).not.toContainEqual(expect.stringContaining('sending'))
})

test('a folder that was made for the lock is removed with it, and one that was there stays', async () => {
  const [made, there] = [join(folder, 'made', 'for', 'it'), join(folder, 'there')]
  await mkdir(there)
  for (const dataDir of [made, there]) await (await lockFolder(dataDir, 'sending', options))()
  expect(await readdir(folder)).toEqual(['there'])
})

test('a recorder waits for a command that has the lock, and no longer', async () => {
  const unlock = await lockFolder(folder, 'sending', options)
  let isFree = false
  const onWait = vi.fn()
  const waiting = untilUnlocked(folder, 'sending', { ...options, onWait }).then(() => (isFree = true))
  await vi.waitFor(() => expect(onWait).toHaveBeenCalledOnce(), { timeout: 120_000 })
  expect(onWait).toHaveBeenCalledWith(
    expect.stringContaining(`waiting for process ${process.pid}, which has ${folder}`),
  )
  expect(isFree).toBe(false)
  await (
    await lockFolder(folder, 'exporting', options)
  )()
  await unlock()
  await waiting
})

test('the lock of a process that was killed counts for nothing, and is removed', async () => {
  await writeFile(join(folder, 'sending.999999999-0dc80916-2495913-b3b28787.lock'), '')
  await untilUnlocked(folder, 'sending', options)
  expect(await readdir(folder)).toEqual([])
})

test('who waits for the lock can be sent home, says for what, and leaves no file', async () => {
  const unlock = await lockFolder(folder, 'sending', options)
  await expect(lockFolder(folder, 'sending', { ...options, signal: AbortSignal.timeout(200) })).rejects.toThrow(
    `stopped waiting for process ${process.pid}, which has ${folder}`,
  )
  await unlock()
  expect(await readdir(folder)).toEqual([])
})

test.each(['ENOTDIR', 'EACCES', 'EROFS'])('a folder that fails with %s is no lock of anybody', async (code) => {
  const fail = () => Promise.reject(Object.assign(new Error(`${code}: refused`), { code }))
  const disk = { ...systemDisk, readdir: fail, open: fail }
  const error = `${folder} cannot be used (${code}): choose a folder that this user may read and write`
  await expect(untilUnlocked(folder, 'sending', { ...options, disk })).rejects.toThrow(error)
  await expect(lockFolder(folder, 'sending', { ...options, disk })).rejects.toThrow(error)
})
