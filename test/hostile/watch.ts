import { readFile } from 'node:fs/promises'
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { bounds } from '../../src/market/bounds.js'

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
  // `stop` tells it. A test that fails before that ends the recorder, which is no failure of other tests.
  watching.catch(() => undefined)
  return {
    async stop() {
      over.abort()
      await watching
      return slowestMs
    },
  }
}

/** A text about as long as the largest response. */
const largestResponse = JSON.stringify(
  Array.from({ length: bounds.responseBytes / 64 }, (_, i) => ({ symbol: `BTC${i}USDT`, lastPrice: '1.5', ask: i })),
)

/** What held the loop up before there was a bound did so for 150 to 300 times of what the largest response takes to parse. */
const longTurns = 100

/** Processor time of a turn that is too long on this machine, as fast as it is just now. */
export function longTurnMs(): number {
  const before = process.cpuUsage()
  JSON.parse(largestResponse)
  const { user, system } = process.cpuUsage(before)
  return (longTurns * (user + system)) / 1_000
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
