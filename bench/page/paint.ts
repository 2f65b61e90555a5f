import type { Browser } from 'playwright-core'
import { intervals } from '../../src/market/candle.js'
import type { MarketResponses } from '../../src/serve/api/marketContract.js'
import { launchBrowser, openPage } from '../../test/support/browser.js'
import { atLeast, atMost, type Check, median } from '../tools/checks.js'

const visits = 7
const asks = 40
const inMs = { unit: 'ms', decimals: 1 }

/** Opens the page as a first visitor several times, and asks the API what the page asks. */
export async function measurePaint(url: string, chromium: string): Promise<Check[]> {
  const browser = await launchBrowser(chromium)
  try {
    const first = await visitPage(browser, url)
    const overview = await visitOverview(browser, url)
    const key = 'category=USDT-FUTURES&symbol=COIN0000USDT'
    return [
      atMost('first paint, median', median(first.paintMs), 1000, inMs),
      atMost('first paint, slowest', Math.max(...first.paintMs), 1000, inMs),
      atMost('first paint of the overview, beside it', median(overview.paintMs) / median(first.paintMs), 1.3, {
        unit: 'times',
      }),
      atLeast('frames while the overview is scrolled, beside those at rest', median(overview.smoothness), 0.95, {
        unit: 'times',
      }),
      atMost('everything of the first screen there, median', median(first.wholeMs), 2000, inMs),
      atMost('transferred', Math.max(...first.bytes) / 1000, 300, { unit: 'kB', decimals: 1 }),
      ...(await charts(url, key)),
      await asking('calendar of 12 series, 42 days', `${url}/api/calendar?limit=12`, 250),
      await asking('spread and funding of an hour', `${url}/api/history?${key}&hours=1`, 50),
      await asking('search among all instruments', `${url}/api/instruments?search=coin07`, 50),
      await asking('status', `${url}/api/status`, 50),
    ]
  } finally {
    await browser.close()
  }
}

async function visitPage(browser: Browser, url: string) {
  const [paintMs, wholeMs, bytes]: [number[], number[], number[]] = [[], [], []]
  for (let visit = 0; visit < visits; visit++) {
    const { page, transferred } = await openPage(browser, url)
    for (const part of ['.chart canvas', '.calendar button.day', '.book .bids tr'])
      await page.locator(part).first().waitFor()
    wholeMs.push(await page.evaluate<number>('performance.now()'))
    paintMs.push(await page.evaluate<number>(firstPaint))
    bytes.push(transferred())
    await page.context().close()
  }
  return { paintMs, wholeMs, bytes }
}

async function visitOverview(browser: Browser, url: string) {
  const [paintMs, smoothness]: [number[], number[]] = [[], []]
  for (let visit = 0; visit < visits; visit++) {
    const { page } = await openPage(browser, `${url}/?market`)
    await page.locator('.market-rows tbody th').first().waitFor()
    paintMs.push(await page.evaluate<number>(firstPaint))
    const atRest = await page.evaluate<number>(framesPerSecond(0))
    smoothness.push((await page.evaluate<number>(framesPerSecond(100))) / atRest)
    await page.context().close()
  }
  return { paintMs, smoothness }
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
  return atMost(`${what}, median`, median(times), maxMs, inMs)
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
        atMost(`chart of ${interval}, all ${count} candles in ${responses} responses`, median(whole), 500, inMs),
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
