import type { Browser } from 'playwright-core'
import { launchBrowser, openPage } from '../../test/support/browser.js'
import { atLeast, atMost, type Check, median } from '../tools/checks.js'

const visits = 7
const inMs = { unit: 'ms', decimals: 1 }

/** The instrument that has all of the candles. */
const shown = 'category=USDT-FUTURES&symbol=COIN0000USDT'

/** Opens the page as a first visitor several times. */
export async function measurePaint(url: string, chromium: string): Promise<Check[]> {
  const browser = await launchBrowser(chromium)
  try {
    const first = await visitPage(browser, url)
    const overview = await visitOverview(browser, url)
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
    ]
  } finally {
    await browser.close()
  }
}

async function visitPage(browser: Browser, url: string) {
  const [paintMs, wholeMs, bytes]: [number[], number[], number[]] = [[], [], []]
  for (let visit = 0; visit < visits; visit++) {
    const { page, transferred } = await openPage(browser, `${url}/?${shown}`)
    for (const part of ['.chart canvas', '.book .bids tr']) await page.locator(part).first().waitFor()
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
