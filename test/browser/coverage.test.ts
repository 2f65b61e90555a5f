import type { Page } from 'playwright-core'
import { beforeEach, describe, expect, test } from 'vitest'
import type { RunningServer } from '../../src/serve/server.js'
import { savedCsv } from '../support/browser.js'
import { chromium } from '../support/installed.js'
import { panelsOfPage } from '../support/panelsOfPage.js'

const { path: chromiumPath, hint } = chromium()

/** The coverage by day over a database that the tests fill, without a recorder. */
describe.skipIf(chromiumPath === null)(`the coverage on the page${hint}`, () => {
  const { sql, opened } = panelsOfPage(chromiumPath ?? '')
  let server: RunningServer
  let page: Page
  beforeEach(() => {
    ;({ server, page } = opened())
  })

  test('the calendar is walked, and a day of it leads to the chart', async () => {
    const today = new Date().toISOString().slice(0, 10)
    await page.goto(
      `${server.url}/?category=SPOT&symbol=BTCUSDT&coverage&series=candles.SPOT.BTCUSDT.market.1m&day=${today}`,
    )
    await page.getByRole('button', { name: 'Show in the chart' }).click()
    await expect.poll(() => page.url()).toContain(`at=${today}T12%3A00`)
    await page.getByRole('link', { name: 'Coverage' }).click()
    const captions = () => page.locator('.calendar caption').innerText()
    await page.getByRole('button', { name: 'Earlier days' }).click()
    await expect.poll(captions).not.toContain(`to ${today}`)
    await page.getByRole('button', { name: 'Later days' }).click()
    await expect.poll(captions).toContain(`to ${today}`)
    await page.getByRole('rowheader', { name: 'BTCUSDT SPOT · 1m candles' }).waitFor()
  })

  test('the file of the coverage has all series, of which the window shows a part', async () => {
    await sql(`insert into recorder.ledger (stream, category, symbol, type, interval, verdict, ranges)
      select 'funding_rates', 'USDT-FUTURES', 'MANY' || number, '', '', 'recorded',
        tstzmultirange(tstzrange(now() - interval '1 hour', now()))
      from generate_series(1, 120) as number`)
    await page.goto(`${server.url}/?coverage=many`)
    await page.getByText('120 series').waitFor()
    const [head, ...rows] = await savedCsv(page, '#coverage')
    expect(head?.slice(0, 3)).toEqual(['stream', 'category', 'symbol'])
    expect(new Set(rows.map((row) => row[2])).size).toBe(120)
    expect(rows.length).toBe(120)
    await sql(`delete from recorder.ledger where symbol like 'MANY%'`)
  })

  test.each([1440, 1024, 390])('today is in view at a width of %i', async (width) => {
    await page.setViewportSize({ width, height: 844 })
    await page.goto(`${server.url}/?coverage`)
    const today = page.locator('.calendar tbody tr').first().locator('button.day').last()
    const { x = 0, width: wide = 0 } = (await today.boundingBox()) ?? {}
    expect(wide).toBeGreaterThan(0)
    expect(x + wide).toBeLessThanOrEqual(width - 13)
  })
})
