import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { chromium } from 'playwright-core'

// Takes the picture of the page that the README shows: npm run screenshot [-- --minutes 4] [--chromium PATH]
// The demo runs for some minutes first, with some days of history, so that there is something to see.

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '4' },
    chromium: { type: 'string', default: '/usr/bin/chromium' },
    output: { type: 'string', default: 'docs/images/page.png' },
  },
})
const program = fileURLToPath(new URL('../src/main.js', import.meta.url))
const folder = await mkdtemp(join(tmpdir(), 'market-recorder-screenshot-'))
const demo = spawn(process.execPath, [program, 'demo', '--data-dir', folder], { stdio: ['ignore', 'pipe', 'inherit'] })
try {
  const { page, service } = await addresses(demo)
  await backfill(service)
  await new Promise((resolve) => setTimeout(resolve, Number(values.minutes) * 60_000))
  await takePicture(`${page}/?category=SPOT&symbol=BTCUSDT&interval=15m`)
  console.log(values.output)
} finally {
  demo.kill('SIGTERM')
  if (demo.exitCode === null) await once(demo, 'exit')
  await rm(folder, { recursive: true, force: true })
}

async function addresses({ stdout }: ChildProcess): Promise<{ page: string; service: string }> {
  if (stdout === null) throw new Error('the demo has no output to read its addresses from')
  let service = ''
  for await (const line of createInterface(stdout)) {
    service = /simulated exchange \((http[^)]+)\)/.exec(line)?.[1] ?? service
    const page = /Page\s+(http\S+)/.exec(line)?.[1]
    if (page !== undefined) return { page, service }
  }
  throw new Error('the demo ended without saying where its page is')
}

async function backfill(service: string): Promise<void> {
  const from = new Date(Date.now() - 5 * 86_400_000).toISOString()
  const what = ['--category', 'SPOT', '--symbol', 'BTCUSDT', '--interval', '1m', '--from', from]
  const to = new Date().toISOString()
  const child = spawn(process.execPath, [program, 'backfill', '--data-dir', folder, ...what, '--to', to], {
    env: { ...process.env, EXCHANGE_BASE_URL: service },
    stdio: 'inherit',
  })
  await once(child, 'exit')
}

async function takePicture(url: string): Promise<void> {
  const browser = await chromium.launch({ executablePath: values.chromium, args: ['--headless', '--no-sandbox'] })
  try {
    const page = await browser.newPage({ viewport: { width: 1440, height: 1415 }, colorScheme: 'dark' })
    await page.goto(url)
    await page.locator('.chart canvas').first().waitFor()
    await page.getByRole('radio', { name: '1 h', exact: true }).check()
    // Away from the chart, whose crosshair follows it.
    await page.mouse.move(0, 0)
    await page.evaluate('scrollTo(0, 0)')
    await page.waitForTimeout(4000)
    // On a busy machine, responses may be on their way over the disk just now.
    await page.getByText('Recording', { exact: true }).waitFor({ timeout: 300_000 })
    mkdirSync(dirname(values.output), { recursive: true })
    await page.screenshot({ path: values.output })
  } finally {
    await browser.close()
  }
}
