import { spawnSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Browser } from 'playwright-core'
import { launchBrowser } from '../../test/support/browser.js'
import { startProgram } from '../../test/support/program.js'
import { type Check, check, median } from '../tools/checks.js'
import { readMetrics, withFolder } from '../tools/recorder.js'

interface CostOptions {
  readonly pages: number
  readonly phaseMs: number
  readonly rounds: number
  /** The path of the browser. */
  readonly chromium: string
}

/** To open and to close pages costs something, too, which must not count as the cost of an open page. */
const settleMs = 8_000
/** As often as Prometheus usually asks. */
const scrapeMs = 5_000
/** A tenth of what the network varies by. */
const negligibleMs = 1

/** How late the recorder is: from response to commit, and in its event loop. Means. */
interface Lateness {
  readonly storeMs: number
  readonly loopMs: number
}

/** Runs the demo and watches how late it is, in turn without a page and with so many open. */
export async function measureCost(options: CostOptions): Promise<Check[]> {
  return withFolder('page', async (folder) => {
    const demo = startProgram(['demo', '--data-dir', join(folder, 'demo')])
    const { browser, pid } = await launchMeasured(folder, options.chromium)
    try {
      const [, url = ''] = await demo.printed(/Page\s+(http\S+)/)
      // The first minute is full of what a new recorder has to catch up with.
      await sleep(45_000)
      const { without, open } = await measurePhases(url, options, () => openPages(browser, pid, url, options.pages))
      const who = `${options.pages} pages in a browser`
      return [
        compared('mean time from response to commit', who, without, open, ({ storeMs }) => storeMs),
        compared('mean lag of the event loop', who, without, open, ({ loopMs }) => loopMs),
      ]
    } finally {
      await browser.close()
      demo.process.kill('SIGTERM')
      await demo.finished
    }
  })
}

/** @param openAll opens the pages and resolves to a function that closes them */
async function measurePhases(url: string, options: CostOptions, openAll: () => Promise<() => Promise<void>>) {
  const without: Lateness[] = []
  const open: Lateness[] = []
  for (let round = 0; round < options.rounds; round++) {
    // The order of both changes: a trend must not be taken for a difference.
    for (const isOpen of round % 2 === 0 ? [false, true] : [true, false]) {
      const close = isOpen ? await openAll() : undefined
      await sleep(settleMs)
      ;(isOpen ? open : without).push(await latenessOf(url, options.phaseMs))
      await close?.()
    }
  }
  return { without, open }
}

/** Noise is how much the phases without a page differ among themselves, in the same run. */
function compared(
  what: string,
  who: string,
  without: readonly Lateness[],
  open: readonly Lateness[],
  value: (lateness: Lateness) => number,
): Check {
  const [before, after] = [without.map(value), open.map(value)]
  const noise = Math.max(...before) - Math.min(...before)
  const difference = median(after) - median(before)
  const shown = (values: readonly number[]) => values.map((ms) => ms.toFixed(2)).join(', ')
  return check(
    `${what}: no page ${shown(before)} ms; ${who} ${shown(after)} ms`,
    `${difference >= 0 ? '+' : ''}${difference.toFixed(2)} ms`,
    `within the noise (${noise.toFixed(2)} ms) or ${negligibleMs} ms`,
    difference <= Math.max(noise, negligibleMs),
  )
}

async function latenessOf(url: string, ms: number): Promise<Lateness> {
  const before = await readMetrics(url)
  let after = before
  const lags: number[] = []
  const end = performance.now() + ms
  while (performance.now() < end) {
    // Each scrape begins the recorder's measuring of its loop anew.
    await sleep(Math.min(scrapeMs, end - performance.now()))
    after = await readMetrics(url)
    lags.push(after('nodejs_eventloop_lag_mean_seconds') * 1000)
  }
  const grown = (name: string) =>
    after(`market_recorder_store_lag_seconds_${name}`) - before(`market_recorder_store_lag_seconds_${name}`)
  return {
    storeMs: (grown('sum') / grown('count')) * 1000,
    loopMs: lags.reduce((sum, lag) => sum + lag, 0) / lags.length,
  }
}

/** Starts the browser and finds its process. */
async function launchMeasured(folder: string, path: string): Promise<{ browser: Browser; pid: number }> {
  const wrapper = join(folder, 'chromium')
  const pidFile = join(folder, 'pid')
  await writeFile(wrapper, `#!/bin/sh\necho $$ >'${pidFile}'\nexec '${path}' "$@"\n`, { mode: 0o755 })
  // A browser lets pages in the background rest. Here all of them count as looked at.
  const awake = ['--disable-renderer-backgrounding', '--disable-backgrounding-occluded-windows']
  const browser = await launchBrowser(wrapper, awake)
  return { browser, pid: Number(await readFile(pidFile, 'utf8')) }
}

/** The processor that is measured draws every frame without a graphics card: few frames, and small ones. */
const cheap = { viewport: { width: 800, height: 600 }, reducedMotion: 'reduce' } as const

/** Opens pages of several instruments. What they draw would be drawn on another machine: once open, they go last. */
async function openPages(browser: Browser, pid: number, url: string, count: number): Promise<() => Promise<void>> {
  await setNiceness(pid, 0)
  const { instruments } = (await (await fetch(`${url}/api/instruments?limit=5`)).json()) as {
    instruments: { category: string; symbol: string }[]
  }
  const keys = instruments.map(({ category, symbol }) => new URLSearchParams({ category, symbol }).toString())
  // One context each has connections of its own: a browser allows a host only six.
  const contexts = await Promise.all(Array.from({ length: count }, () => browser.newContext(cheap)))
  for (const [index, context] of contexts.entries()) {
    const page = await context.newPage()
    page.setDefaultTimeout(120_000)
    await page.goto(`${url}/?${keys[index % keys.length]}`)
  }
  for (const context of contexts) await context.pages()[0]?.locator('.chart canvas').first().waitFor()
  await setNiceness(pid, 19)
  return async () => {
    await Promise.all(contexts.map((context) => context.close()))
  }
}

/**
 * Sets the niceness of a process and all that it has started. Linux weighs sessions against each other first, where it
 * groups by them, and only within one by niceness. The browser is a session of its own.
 */
async function setNiceness(pid: number, niceness: number): Promise<void> {
  // Only root can take it back. For others the next pages open slowly.
  await writeFile(`/proc/${pid}/autogroup`, `${niceness}`).catch(() => undefined)
  spawnSync('renice', ['-n', `${niceness}`, '-g', `${pid}`], { stdio: 'ignore' })
}
