import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const everyMs = 200
/** Delays older than this no longer count. */
const memoryMs = 10_000
/** A disk that takes longer is broken, not busy. */
const maxMs = 5_000

export interface MachinePace {
  /** How long it took at the worst, lately, in milliseconds; 5 s at most. */
  slowestMs(): number
  end(): Promise<void>
}

/** Brings a few bytes to a disk again and again: how long that takes, and how late each turn comes, tell how busy the machine is. */
export function watchMachinePace(folder: string): MachinePace {
  const ended = new AbortController()
  const delays: { readonly at: number; readonly ms: number }[] = []
  /** When the turn that is next or under way was due. */
  let startedAt = Infinity
  const file = join(folder, 'pace')
  const watching = (async () => {
    const handle = await open(file, 'w')
    try {
      startedAt = Date.now() + everyMs
      while (await sleep(everyMs, true, { signal: ended.signal }).catch(() => false)) {
        await handle.write('.')
        await handle.sync()
        const at = Date.now()
        delays.push({ at, ms: at - startedAt })
        startedAt = at + everyMs
        while ((delays[0]?.at ?? at) < at - memoryMs) delays.shift()
      }
    } finally {
      await handle.close()
      await rm(file, { force: true })
    }
  })()
  // The caller of `end` gets the error.
  watching.catch(() => undefined)
  return {
    // The write under way counts, too: it may be the slowest of all.
    slowestMs: () => Math.min(maxMs, Math.max(0, Date.now() - startedAt, ...delays.map(({ ms }) => ms))),
    async end() {
      ended.abort()
      await watching
    },
  }
}
