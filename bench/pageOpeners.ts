import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium } from 'playwright-core'

/** Opens pages of the recorder, of several instruments in turn. */
export interface PageOpener {
  readonly what: string
  /** Resolves, when all show something, to what closes them. */
  open(url: string, count: number): Promise<() => Promise<void>>
  close(): Promise<void>
}

export const flags = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** Real pages. What they draw would be drawn on another machine: once open, they get only the time nobody else wants. */
export async function browserOpener(program: string): Promise<PageOpener> {
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-bench-browser-'))
  const wrapper = join(folder, 'chromium')
  const pidFile = join(folder, 'pid')
  await writeFile(wrapper, `#!/bin/sh\necho $$ >'${pidFile}'\nexec '${program}' "$@"\n`, { mode: 0o755 })
  // All of them are looked at: a browser lets pages in the background rest.
  const awake = ['--disable-renderer-backgrounding', '--disable-backgrounding-occluded-windows']
  const browser = await chromium.launch({ executablePath: wrapper, args: [...flags, ...awake] })
  const pid = Number(await readFile(pidFile, 'utf8'))
  return {
    what: 'pages in a browser',
    async open(url, count) {
      await setNiceness(pid, 0)
      const keys = await someInstruments(url)
      // One context each, so that each has connections of its own: a browser allows a host only six.
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
    },
    async close() {
      await browser.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Without a graphics card every frame is drawn by the processor that is measured: few of them, and small ones. */
const cheap = { viewport: { width: 800, height: 600 }, reducedMotion: 'reduce' } as const

/**
 * Of a process and all that it has started. Linux weighs sessions against each other first, where it groups by them, and
 * only within one by niceness; the browser is a session of its own.
 */
async function setNiceness(pid: number, niceness: number): Promise<void> {
  // Whoever is not root cannot take it back: the next pages open slowly, that is all.
  await writeFile(`/proc/${pid}/autogroup`, `${niceness}`).catch(() => undefined)
  spawnSync('renice', ['-n', `${niceness}`, '-g', `${pid}`], { stdio: 'ignore' })
}

/** Where there is no browser: clients that take what pages take, and ask what they ask. */
export function clientOpener(): PageOpener {
  return {
    what: 'clients that take what a page takes (no browser here)',
    async open(url, count) {
      const closing = new AbortController()
      const keys = await someInstruments(url)
      for (let page = 0; page < count; page++) {
        const key = keys[page % keys.length]
        void takeEvents(`${url}/api/events?${key}`, closing.signal)
        void askEvery(`${url}/api/history?${key}`, 15_000, closing.signal)
        void askEvery(`${url}/api/calendar?limit=12`, 30_000, closing.signal)
        void askEvery(`${url}/api/candles?${key}`, 60_000, closing.signal)
      }
      return async () => closing.abort()
    },
    close: async () => undefined,
  }
}

async function someInstruments(url: string): Promise<string[]> {
  const { instruments } = (await (await fetch(`${url}/api/instruments?limit=5`)).json()) as {
    instruments: { category: string; symbol: string }[]
  }
  return instruments.map(({ category, symbol }) => new URLSearchParams({ category, symbol }).toString())
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
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, ms)
        signal.addEventListener('abort', () => {
          clearTimeout(timer)
          resolve(undefined)
        })
      })
    }
  } catch (error) {
    if (!signal.aborted) throw error
  }
}
