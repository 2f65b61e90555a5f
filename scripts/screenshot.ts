import { mkdirSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { launchBrowser } from '../test/support/browser.js'
import { leaveNothing, runProgram, startProgram } from '../test/support/program.js'

// Takes the picture of the page that the README shows: npm run screenshot [-- --minutes 4] [--chromium PATH]
// The demo runs for some minutes first, with some days of history, so that there is something to see.

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '4' },
    chromium: { type: 'string', default: '/usr/bin/chromium' },
    output: { type: 'string', default: 'docs/images/page.png' },
  },
})
const folder = await mkdtemp(join(tmpdir(), 'market-recorder-screenshot-'))
const demo = startProgram(['demo', '--data-dir', folder])
try {
  const [, service = ''] = await demo.printed(/simulated exchange \((http[^)]+)\)/)
  const [, page = ''] = await demo.printed(/Page\s+(http\S+)/)
  // The backfill has to find the instrument in the database.
  await demo.printed(/collecting/)
  await backfill(service)
  await new Promise((resolve) => setTimeout(resolve, Number(values.minutes) * 60_000))
  await takePicture(`${page}/?category=SPOT&symbol=BTCUSDT&interval=15m`)
  console.log(values.output)
} finally {
  demo.process.kill('SIGTERM')
  await demo.finished
  await rm(folder, { recursive: true, force: true })
  await leaveNothing()
}

async function backfill(service: string): Promise<void> {
  const range = ['--from', new Date(Date.now() - 5 * 86_400_000).toISOString(), '--to', new Date().toISOString()]
  const what = ['--category', 'SPOT', '--symbol', 'BTCUSDT', '--interval', '1m', ...range]
  const { exitCode, stderr } = await runProgram(['backfill', '--data-dir', folder, ...what], {
    EXCHANGE_BASE_URL: service,
  })
  if (exitCode !== 0) throw new Error(`the backfill failed: ${stderr}`)
}

async function takePicture(url: string): Promise<void> {
  const browser = await launchBrowser(values.chromium)
  try {
    const page = await browser.newPage({ viewport: { width: 1440, height: 1000 }, colorScheme: 'dark' })
    await page.goto(url)
    await page.locator('.chart canvas').first().waitFor()
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
