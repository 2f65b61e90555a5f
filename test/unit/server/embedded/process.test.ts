import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, test } from 'vitest'
import {
  embeddedPaths,
  readPasswords,
  readServerState,
  removeStaleLock,
} from '../../../../src/server/embedded/process.js'
import { temporaryFolder } from '../../../support/temporaryFolder.js'

const folder = temporaryFolder('embedded')
const { cluster } = embeddedPaths(folder)
const lock = join(cluster, 'postmaster.pid')
const ending = new AbortController()
afterAll(() => ending.abort())
beforeEach(() => fs.mkdir(cluster, { recursive: true }))

/** Starts a process that is called as a server's, in a folder. */
async function startNamesake(cwd: string): Promise<number> {
  const program = join(folder, 'postgres')
  await fs.symlink('/bin/sleep', program).catch(() => undefined)
  const namesake = spawn(program, ['600'], { argv0: 'sleep', cwd, stdio: 'ignore', signal: ending.signal })
  namesake.on('error', () => undefined)
  await once(namesake, 'spawn')
  return namesake.pid ?? 0
}

const writeLock = (pid: number) => fs.writeFile(lock, `${pid}\n${cluster}\n1\n5432\n\n127.0.0.1\n0 0\nready\n`)
const isLocked = async () => (await fs.readdir(cluster)).includes('postmaster.pid')

test('the modes of password files that others could read are mended when they are read', async () => {
  const files = Object.values(embeddedPaths(folder).passwords)
  for (const file of files) await fs.writeFile(file, 'secret\n', { mode: 0o644 })
  expect(await readPasswords(folder)).toEqual({ owner: 'secret', page: 'secret', reader: 'secret' })
  for (const file of files) expect((await fs.stat(file)).mode & 0o777).toBe(0o600)
})

test.runIf(process.platform === 'linux')('a server is the one whose folder is the cluster', async () => {
  const [own, foreign] = [await startNamesake(cluster), await startNamesake(folder)]
  await writeLock(own)
  expect(await readServerState(folder)).toEqual({ pid: own, port: 5432, status: 'ready' })
  await removeStaleLock(folder)
  expect(await isLocked()).toBe(true)
  await writeLock(foreign)
  expect(await readServerState(folder)).toBeUndefined()
  await removeStaleLock(folder)
  expect(await isLocked()).toBe(false)
})

test.runIf(process.platform === 'linux')('a single-user server, whose number is negative, keeps its lock', async () => {
  const [own, foreign] = [await startNamesake(cluster), await startNamesake(folder)]
  await writeLock(-own)
  expect(await readServerState(folder)).toBeUndefined()
  await removeStaleLock(folder)
  expect(await isLocked()).toBe(true)
  await writeLock(-foreign)
  await removeStaleLock(folder)
  expect(await isLocked()).toBe(false)
})

test.each(['', '\0\0\0\0'])(
  'a lock without a number is removed, unless a server may just write it: %j',
  async (text) => {
    await fs.writeFile(lock, text)
    await removeStaleLock(folder)
    expect(await isLocked()).toBe(true)
    const aMinuteAgo = Date.now() / 1000 - 60
    await fs.utimes(lock, aMinuteAgo, aMinuteAgo)
    await removeStaleLock(folder)
    expect(await isLocked()).toBe(false)
  },
)
