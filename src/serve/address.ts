import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, within } from '../runtime/clock.js'
import { makeFolder } from '../runtime/disk.js'

const fileName = 'page-address.json'
const patienceMs = 2_000

interface Address {
  readonly url: string
  /** Of the process that serves there. */
  readonly pid: number
}

/** Leaves the server's address in the data folder, where the status command finds it: the port may be any free one. */
export async function writeAddress(dataDir: string, url: string): Promise<void> {
  await makeFolder(dataDir, 0o700)
  await writeFile(join(dataDir, fileName), `${JSON.stringify({ url, pid: process.pid } satisfies Address)}\n`, {
    mode: 0o600,
  })
}

/** The address that a server has left; null when there is none. It may no longer be there. */
export async function readAddress(dataDir: string): Promise<string | null> {
  return (await readNote(dataDir))?.url ?? null
}

async function readNote(dataDir: string): Promise<Partial<Address> | null> {
  try {
    const note = JSON.parse(await readFile(join(dataDir, fileName), 'utf8')) as Partial<Address>
    return typeof note.url === 'string' && /^https?:\/\//.test(note.url) ? note : null
  } catch {
    return null
  }
}

/** The address that a server has left, if it still serves there; else null. After a crash another may have its port. */
export async function respondingAddress(clock: Clock, dataDir: string): Promise<string | null> {
  const { url, pid } = (await readNote(dataDir)) ?? {}
  if (url === undefined || pid === undefined || !isRunning(pid)) return null
  const request = fetch(new URL('/healthz', url)).catch(() => null)
  const response = await within(clock, patienceMs, request, null)
  return response?.ok === true ? url : null
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Takes the address away again, unless another server has left its own since. */
export async function removeAddress(dataDir: string, url: string): Promise<void> {
  if ((await readAddress(dataDir)) === url) await rm(join(dataDir, fileName), { force: true })
}
