import { once } from 'node:events'
import { parentPort, Worker, workerData } from 'node:worker_threads'
import { compareSync } from 'bcryptjs'

const marker = 'market-recorder passwords'

interface Question {
  readonly password: string
  readonly hash: string
}

export interface PasswordThread {
  /** One at a time. Rejects when the thread has ended. */
  compare(password: string, hash: string): Promise<boolean>
  close(): Promise<void>
}

/** Checks passwords in a thread of its own: that is made to take long, and the recording must not wait for it. */
export function startPasswordThread(): PasswordThread {
  const worker = new Worker(new URL(import.meta.url), { workerData: { [marker]: true } })
  worker.unref()
  const ended = new AbortController()
  worker.once('exit', () => ended.abort(new Error('the thread that checks passwords has ended')))
  return {
    async compare(password, hash) {
      worker.postMessage({ password, hash } satisfies Question)
      const [matches] = (await once(worker, 'message', { signal: ended.signal })) as [boolean]
      return matches
    },
    async close() {
      await worker.terminate()
    },
  }
}

// This module is both sides. Other threads may import it too; only the one that was started here has the marker.
const handed = workerData as { readonly [marker]?: true } | null
if (handed?.[marker] === true && parentPort !== null) {
  const port = parentPort
  port.on('message', ({ password, hash }: Question) => port.postMessage(compareSync(password, hash)))
}
