import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** When something is in the spool for the first time, in milliseconds from now; throws when nothing is by `deadlineMs`. */
export async function untilSpooling(root: string, deadlineMs: number): Promise<number> {
  const startedAt = Date.now()
  while ((await bytesIn(root)) === 0) {
    if (Date.now() > deadlineMs) throw new Error('nothing was recorded to the spool while the database was away')
    await sleep(20)
  }
  return Date.now() - startedAt
}

/** Adds up the sizes of the segments of all recorders. */
async function bytesIn(root: string): Promise<number> {
  const names = await readdir(root, { recursive: true }).catch(() => [])
  let bytes = 0
  for (const name of names) {
    if (!name.endsWith('.seg')) continue
    const found = await stat(join(root, name)).catch(() => undefined)
    if (found?.isFile() === true) bytes += found.size
  }
  return bytes
}

const calmMs = 2_000
const patienceMs = 600_000

/** Resolves when nothing has been in the spool for a while: all of it has been stored. A busy machine may take its time. */
export async function untilReplayed(root: string): Promise<void> {
  const startedAt = Date.now()
  for (let emptySince = Date.now(); Date.now() - emptySince < calmMs; await sleep(100)) {
    if ((await bytesIn(root)) > 0) emptySince = Date.now()
    if (Date.now() - startedAt > patienceMs) throw new Error(`there is something in ${root} still`)
  }
}
