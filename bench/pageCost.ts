import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Check, median } from './figures.js'
import { browserOpener, clientOpener } from './pageOpeners.js'

const entryPoint = fileURLToPath(new URL('../src/main.js', import.meta.url))

interface CostOptions {
  readonly pages: number
  readonly phaseMs: number
  readonly rounds: number
  /** Where Chromium is; null has clients take what a page would. */
  readonly chromium: string | null
}

/** Runs the demo and watches how late it is, in turn without a page and with so many open. */
export async function measureCost({ pages, phaseMs, rounds, chromium }: CostOptions): Promise<Check[]> {
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-bench-'))
  const demo = spawn(process.execPath, [entryPoint, 'demo', '--data-dir', folder], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const opener = chromium === null ? clientOpener() : await browserOpener(chromium)
  try {
    const url = await pageUrl(demo)
    // The first minute is full of what a new recorder has to catch up with.
    await sleep(45_000)
    const without: Lateness[] = []
    const open: Lateness[] = []
    for (let round = 0; round < rounds; round++) {
      // Which of the two comes first changes, so that a trend is not taken for a difference.
      for (const isOpen of round % 2 === 0 ? [false, true] : [true, false]) {
        const close = isOpen ? await opener.open(url, pages) : undefined
        await sleep(settleMs)
        const lateness = await latenessOf(url, phaseMs)
        ;(isOpen ? open : without).push(lateness)
        await close?.()
      }
    }
    const who = `${pages} ${opener.what}`
    return [
      // A millisecond is a tenth of what the network varies by.
      compared('mean time from response to commit', who, without, open, ({ storeMs }) => storeMs, 1),
      compared('mean lag of the event loop', who, without, open, ({ loopMs }) => loopMs, 1),
    ]
  } finally {
    await opener.close()
    demo.kill('SIGTERM')
    if (demo.exitCode === null) await once(demo, 'exit')
    await rm(folder, { recursive: true, force: true })
  }
}

/** After pages were opened or closed: what that itself costs is not what an open page costs. */
const settleMs = 8_000

interface Lateness {
  readonly storeMs: number
  readonly loopMs: number
}

/** Noise is how much the phases without a page differ among themselves, in the same run. */
function compared(
  what: string,
  who: string,
  without: readonly Lateness[],
  open: readonly Lateness[],
  value: (lateness: Lateness) => number,
  negligibleMs: number,
): Check {
  const [before, after] = [without.map(value), open.map(value)]
  const noise = Math.max(...before) - Math.min(...before)
  const difference = median(after) - median(before)
  const shown = (values: readonly number[]) => values.map((ms) => ms.toFixed(2)).join(', ')
  return {
    what: `${what}: no page ${shown(before)} ms; ${who} ${shown(after)} ms`,
    measured: `${difference >= 0 ? '+' : ''}${difference.toFixed(2)} ms`,
    target: `within the noise (${noise.toFixed(2)} ms) or ${negligibleMs} ms`,
    isMet: difference <= Math.max(noise, negligibleMs),
  }
}

async function pageUrl(demo: ChildProcess): Promise<string> {
  if (demo.stdout === null) throw new Error('the demo has no output to read its address from')
  for await (const line of createInterface(demo.stdout)) {
    const url = /Page\s+(http\S+)/.exec(line)?.[1]
    if (url !== undefined) return url
  }
  throw new Error('the demo ended without saying where its page is')
}

/** Mean time from the last byte of a response to its commit over the next while, all streams, and mean lag of the event loop. */
async function latenessOf(url: string, ms: number): Promise<Lateness> {
  const before = await readMetrics(url)
  const lags: number[] = []
  const end = performance.now() + ms
  while (performance.now() < end) {
    // Each scrape begins the recorder's measuring of its loop anew.
    await sleep(Math.min(scrapeMs, end - performance.now()))
    lags.push((await readMetrics(url)).loopMs)
  }
  const after = await readMetrics(url)
  return {
    storeMs: ((after.sum - before.sum) / (after.count - before.count)) * 1000,
    loopMs: lags.reduce((sum, lag) => sum + lag, 0) / lags.length,
  }
}

/** As often as Prometheus usually asks. */
const scrapeMs = 5_000

async function readMetrics(url: string): Promise<{ sum: number; count: number; loopMs: number }> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const total = (name: string) =>
    [...text.matchAll(new RegExp(`^market_recorder_store_lag_seconds_${name}\\{.*\\} (\\S+)$`, 'gm'))].reduce(
      (sum, [, value]) => sum + Number(value),
      0,
    )
  const loop = Number(/^nodejs_eventloop_lag_mean_seconds (\S+)$/m.exec(text)?.[1])
  return { sum: total('sum'), count: total('count'), loopMs: loop * 1000 }
}

async function sleep(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)))
}
