import { chromium } from 'playwright-core'
import { intervals } from '../src/market/candle.js'
import type { MarketResponses } from '../src/serve/api/marketContract.js'
import { type Check, median } from './figures.js'
import { flags } from './pageOpeners.js'

const visits = 7
const asks = 40

/** Opens the page as a first visitor several times, and asks the API what the page asks. */
export async function measurePaint(url: string, executablePath: string): Promise<Check[]> {
  const browser = await chromium.launch({
    executablePath,
    args: flags,
  })
  const paints: number[] = []
  const overviews: number[] = []
  const smoothness: number[] = []
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
    for (let visit = 0; visit < visits; visit++) {
      const context = await browser.newContext({ viewport: { width: 1440, height: 900 } })
      const page = await context.newPage()
      await page.goto(`${url}/?market`)
      await page.locator('.market-rows tbody th').first().waitFor()
      overviews.push(await page.evaluate<number>(firstPaint))
      const atRest = await page.evaluate<number>(framesPerSecond(0))
      smoothness.push((await page.evaluate<number>(framesPerSecond(100))) / atRest)
      await context.close()
    }
  } finally {
    await browser.close()
  }
  const key = 'category=USDT-FUTURES&symbol=COIN0000USDT'
  return [
    atMost('first paint, median', median(paints), 1000, 'ms'),
    atMost('first paint, slowest', Math.max(...paints), 1000, 'ms'),
    atMost('first paint of the overview, beside it', median(overviews) / median(paints), 1.3, 'times'),
    atLeast('frames while the overview is scrolled, beside those at rest', median(smoothness), 0.95, 'times'),
    atMost('everything of the first screen there, median', median(complete), 2000, 'ms'),
    atMost('transferred', Math.max(...bytes) / 1000, 300, 'kB'),
    ...(await charts(url, key)),
    await asking('calendar of 12 series, 42 days', `${url}/api/calendar?limit=12`, 250),
    await asking('spread and funding of an hour', `${url}/api/history?${key}&hours=1`, 50),
    await asking('search among all instruments', `${url}/api/instruments?search=coin07`, 50),
    await asking('status', `${url}/api/status`, 50),
  ]
}

const firstPaint = `performance.getEntriesByName('first-contentful-paint')[0].startTime`

/** Frames a second over three seconds in which the overview is scrolled by so much with each; 100 is a fast wheel. */
const framesPerSecond = (pixels: number) => `new Promise((resolve) => {
  const rows = document.querySelector('.market-rows')
  const startedMs = performance.now()
  let frames = 0
  const step = () => {
    const passedMs = performance.now() - startedMs
    if (passedMs > 3000) return resolve((frames * 1000) / passedMs)
    frames += 1
    rows.scrollTop += ${pixels}
    if (rows.scrollTop + rows.clientHeight >= rows.scrollHeight) rows.scrollTop = 0
    requestAnimationFrame(step)
  }
  requestAnimationFrame(step)
})`

async function asking(what: string, url: string, maxMs: number): Promise<Check> {
  const times: number[] = []
  for (let i = 0; i < asks; i++) {
    const startedMs = performance.now()
    const response = await fetch(url)
    await response.arrayBuffer()
    if (!response.ok) throw new Error(`${url} answered ${response.status}`)
    times.push(performance.now() - startedMs)
  }
  return atMost(`${what}, median`, median(times), maxMs, 'ms')
}

/** The first response of each interval that can be asked for, and all that it asks for to show 500 candles. */
async function charts(url: string, key: string): Promise<Check[]> {
  const checks: Check[] = []
  for (const interval of intervals) {
    const path = `${url}/api/candles?${key}&interval=${interval}&limit=500`
    const { candles } = await candlesOf(path)
    checks.push(await asking(`chart of ${interval}, first response (${candles.length} candles)`, path, 50))
    const whole: number[] = []
    let [count, responses] = [0, 0]
    for (let i = 0; i < visits; i++) {
      const startedMs = performance.now()
      ;({ count, responses } = await wholeChart(path))
      whole.push(performance.now() - startedMs)
    }
    if (responses > 1) {
      checks.push(
        atMost(`chart of ${interval}, all ${count} candles in ${responses} responses`, median(whole), 500, 'ms'),
      )
    }
  }
  return checks
}

async function wholeChart(path: string): Promise<{ count: number; responses: number }> {
  let [count, responses, from] = [0, 0, '']
  for (;;) {
    const { candles, hasOlder } = await candlesOf(path + from)
    count += candles.length
    responses++
    if (count >= 500 || !hasOlder) return { count, responses }
    from = `&before=${candles[0]?.openTime}`
  }
}

async function candlesOf(path: string): Promise<MarketResponses['candles']> {
  return (await (await fetch(path)).json()) as MarketResponses['candles']
}

function atLeast(what: string, value: number, least: number, unit: string): Check {
  return { what, measured: `${value.toFixed(1)} ${unit}`, target: `≥ ${least} ${unit}`, isMet: value >= least }
}

function atMost(what: string, value: number, most: number, unit: string): Check {
  return { what, measured: `${value.toFixed(1)} ${unit}`, target: `≤ ${most} ${unit}`, isMet: value <= most }
}
