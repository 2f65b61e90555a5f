import { accessSync, constants, rmSync, statfsSync } from 'node:fs'
import { chmod, mkdir, readdir, rm } from 'node:fs/promises'
import { freemem } from 'node:os'
import { join } from 'node:path'
import { isRunning } from '../../src/runtime/process.js'

const memory = '/dev/shm'
const roomBytes = 8e9
const prefix = 'market-recorder-tests.'

/**
 * Keeps what the tests throw away in memory where there is room for it, unless TMPDIR says where else: each database that is made and
 * dropped is some hundred files, which takes a tenth of all time on a disk. They go when the process ends: of several projects in one
 * run, each ends its own servers before.
 */
export async function setup(): Promise<void> {
  if (process.env['TMPDIR'] !== undefined || !hasRoom()) return
  await removeLeftovers()
  const folder = join(memory, `${prefix}${process.pid}`)
  await mkdir(folder)
  // Servers run as another user.
  await chmod(folder, 0o1777)
  process.env['TMPDIR'] = folder
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
}

function hasRoom(): boolean {
  try {
    accessSync(memory, constants.W_OK)
    const { bavail, bsize } = statfsSync(memory)
    return Math.min(bavail * bsize, freemem()) >= roomBytes
  } catch {
    return false
  }
}

/** Removes the folders of runs that were killed. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(memory)) {
    const pid = name.startsWith(prefix) ? Number(name.slice(prefix.length)) : Number.NaN
    if (Number.isNaN(pid) || (pid !== process.pid && isRunning(pid))) continue
    await rm(join(memory, name), { recursive: true, force: true }).catch(() => undefined)
  }
}
