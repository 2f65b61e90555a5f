import { readFile } from 'node:fs/promises'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * How long a response of /healthz, from the outside and on a connection of its own, had to wait for what the recorder does: at most
 * the processor time that it used meanwhile. What it waits for the processor of a busy machine is not its doing.
 */
export function watchHealth(pageUrl: string, pid: number | undefined): { stop(): Promise<number> } {
  let slowestMs = 0
  const over = new AbortController()
  const watching = (async () => {
    while (!over.signal.aborted) {
      const [startedMs, usedMs] = [performance.now(), await processorMs(pid)]
      const status = await healthz(pageUrl)
      if (status !== 200) throw new Error(`/healthz says ${status}`)
      slowestMs = Math.max(slowestMs, Math.min(performance.now() - startedMs, (await processorMs(pid)) - usedMs))
      await sleep(100)
    }
  })()
  return {
    async stop() {
      over.abort()
      await watching
      return slowestMs
    },
  }
}

function healthz(pageUrl: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = http.get(`${pageUrl}/healthz`, { agent: false }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0))
    })
    asked.on('error', reject)
  })
}

/** Processor time that a recorder has used so far, in user and system mode. */
async function processorMs(pid: number | undefined): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  // Behind the name, which may hold spaces: the state is the third field, the times are the 14th and the 15th, in hundredths.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** Memory that a recorder has now. */
export async function residentBytes(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024
}
