import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const everyMs = 200
/** What matters to what happens now. */
const memoryMs = 10_000

export interface MachinePace {
  /** How much later than planned a little was on the disk at the worst, lately, in milliseconds. */
  slowestMs(): number
  end(): Promise<void>
}

/** Brings a few bytes to a disk again and again: how long that takes tells how busy the machine is. */
export function watchMachinePace(folder: string): MachinePace {
  const ended = new AbortController()
  const delays: { readonly at: number; readonly ms: number }[] = []
  let plannedAt = Date.now() + everyMs
  const file = join(folder, 'pace')
  const watching = (async () => {
    const handle = await open(file, 'w')
    try {
      while (await sleep(everyMs, true, { signal: ended.signal }).catch(() => false)) {
        await handle.write('.')
        await handle.sync()
        const at = Date.now()
        delays.push({ at, ms: at - plannedAt })
        while ((delays[0]?.at ?? at) < at - memoryMs) delays.shift()
        plannedAt = at + everyMs
      }
    } finally {
      await handle.close()
      await rm(file, { force: true })
    }
  })()
  return {
    // What is under way counts, too: it may be the slowest of all.
    slowestMs: () => Math.max(0, Date.now() - plannedAt, ...delays.map(({ ms }) => ms)),
    async end() {
      ended.abort()
      await watching
    },
  }
}
