import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Check, median } from './figures.js'

const entryPoint = fileURLToPath(new URL('../src/main.js', import.meta.url))
const rounds = 3

/** Runs the demo and watches how late answers are stored, in turn without a page and with so many open. */
export async function measureCost(options: { readonly pages: number; readonly phaseMs: number }): Promise<Check[]> {
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-bench-'))
  const demo = spawn(process.execPath, [entryPoint, 'demo', '--data-dir', folder], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  try {
    const url = await pageUrl(demo)
    // The first minute is full of what a new recorder has to catch up with.
    await sleep(45_000)
    const without: number[] = []
    const withPages: number[] = []
    for (let round = 0; round < rounds; round++) {
      without.push(await lagOf(url, options.phaseMs))
      const close = await openPages(url, options.pages)
      await sleep(2_000)
      withPages.push(await lagOf(url, options.phaseMs))
      close()
      await sleep(2_000)
    }
    const noise = Math.max(...without) - Math.min(...without)
    const difference = median(withPages) - median(without)
    const shown = (values: readonly number[]) => values.map((value) => value.toFixed(2)).join(', ')
    return [
      {
        what: `mean time from answer to commit: no page ${shown(without)} ms; ${options.pages} pages ${shown(withPages)} ms`,
        measured: `${difference >= 0 ? '+' : ''}${difference.toFixed(2)} ms`,
        // A millisecond is a tenth of what the network varies by.
        target: `within the noise (${noise.toFixed(2)} ms) or 1 ms`,
        isMet: difference <= Math.max(noise, 1),
      },
    ]
  } finally {
    demo.kill('SIGTERM')
    if (demo.exitCode === null) await once(demo, 'exit')
    await rm(folder, { recursive: true, force: true })
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

/** Mean time from the last byte of an answer to its commit over the next while, milliseconds; all streams. */
async function lagOf(url: string, ms: number): Promise<number> {
  const before = await readLag(url)
  await sleep(ms)
  const after = await readLag(url)
  return ((after.sum - before.sum) / (after.count - before.count)) * 1000
}

async function readLag(url: string): Promise<{ sum: number; count: number }> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const total = (name: string) =>
    [...text.matchAll(new RegExp(`^market_recorder_store_lag_seconds_${name}\\{.*\\} (\\S+)$`, 'gm'))].reduce(
      (sum, [, value]) => sum + Number(value),
      0,
    )
  return { sum: total('sum'), count: total('count') }
}

/** What an open page does: takes events of the status and of an instrument, and asks for what it shows beside. */
async function openPages(url: string, count: number): Promise<() => void> {
  const closing = new AbortController()
  const { instruments } = (await (await fetch(`${url}/api/instruments?limit=5`)).json()) as {
    instruments: { category: string; symbol: string }[]
  }
  for (let page = 0; page < count; page++) {
    const { category, symbol } = instruments[page % instruments.length] ?? { category: 'SPOT', symbol: 'BTCUSDT' }
    const key = new URLSearchParams({ category, symbol }).toString()
    void takeEvents(`${url}/api/events?${key}`, closing.signal)
    void askEvery(`${url}/api/history?${key}`, 15_000, closing.signal)
    void askEvery(`${url}/api/calendar?limit=12`, 30_000, closing.signal)
    void askEvery(`${url}/api/candles?${key}`, 60_000, closing.signal)
  }
  return () => closing.abort()
}

async function takeEvents(url: string, signal: AbortSignal): Promise<void> {
  try {
    const response = await fetch(url, { signal })
    for await (const chunk of response.body ?? []) void chunk
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

async function askEvery(url: string, ms: number, signal: AbortSignal): Promise<void> {
  try {
    while (!signal.aborted) {
      await (await fetch(url, { signal })).arrayBuffer()
      await sleep(ms, signal)
    }
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal?.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve(undefined)
    })
  })
}
