import { chromium } from 'playwright-core'
import { type Check, median } from './figures.js'

const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking']
const visits = 7
const asks = 40

/** Opens the page as a first visitor several times, and asks the API what the page asks. */
export async function measurePaint(url: string, executablePath: string): Promise<Check[]> {
  const browser = await chromium.launch({
    executablePath,
    args: [...flags, '--disable-component-update', '--disable-sync'],
  })
  const paints: number[] = []
  const complete: number[] = []
  const bytes: number[] = []
  try {
    for (let visit = 0; visit < visits; visit++) {
      const context = await browser.newContext({ viewport: { width: 1440, height: 900 } })
      const page = await context.newPage()
      const session = await context.newCDPSession(page)
      let transferred = 0
      await session.send('Network.enable')
      session.on('Network.loadingFinished', ({ encodedDataLength }) => {
        transferred += encodedDataLength
      })
      const startedMs = performance.now()
      await page.goto(url)
      await page.locator('.chart canvas').first().waitFor()
      await page.locator('.calendar button.day').first().waitFor()
      await page.locator('.book .bids tr').first().waitFor()
      complete.push(performance.now() - startedMs)
      paints.push(await page.evaluate<number>(firstPaint))
      bytes.push(transferred)
      await context.close()
    }
  } finally {
    await browser.close()
  }
  const key = 'category=USDT-FUTURES&symbol=COIN0000USDT'
  return [
    atMost('first paint, median', median(paints), 1000, 'ms'),
    atMost('first paint, slowest', Math.max(...paints), 1000, 'ms'),
    atMost('everything of the first screen there, median', median(complete), 2000, 'ms'),
    atMost('transferred', Math.max(...bytes) / 1000, 300, 'kB'),
    await asking('500 candles of 1m', `${url}/api/candles?${key}&limit=500`, 50),
    await asking('500 candles of 15m, rolled up', `${url}/api/candles?${key}&limit=500&interval=15m`, 50),
    await asking('500 candles of 1H, rolled up', `${url}/api/candles?${key}&limit=500&interval=1H`, 250),
    await asking('calendar of 12 series, 42 days', `${url}/api/calendar?limit=12`, 250),
    await asking('spread and funding of an hour', `${url}/api/history?${key}&hours=1`, 50),
    await asking('search among all instruments', `${url}/api/instruments?search=coin07`, 50),
    await asking('status', `${url}/api/status`, 50),
  ]
}

const firstPaint = `performance.getEntriesByName('first-contentful-paint')[0].startTime`

async function asking(what: string, url: string, mostMs: number): Promise<Check> {
  const times: number[] = []
  for (let i = 0; i < asks; i++) {
    const startedMs = performance.now()
    const response = await fetch(url)
    await response.arrayBuffer()
    if (!response.ok) throw new Error(`${url} answered ${response.status}`)
    times.push(performance.now() - startedMs)
  }
  return atMost(`${what}, median`, median(times), mostMs, 'ms')
}

function atMost(what: string, value: number, most: number, unit: string): Check {
  return { what, measured: `${value.toFixed(1)} ${unit}`, target: `≤ ${most} ${unit}`, isMet: value <= most }
}
