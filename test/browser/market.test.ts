import type { Page } from 'playwright-core'
import { beforeEach, describe, expect, test } from 'vitest'
import type { RunningServer } from '../../src/serve/server.js'
import { chromium } from '../support/installed.js'
import { panelsOfPage } from '../support/panelsOfPage.js'

const { path: chromiumPath, hint } = chromium()

/** The list of all instruments over a database that the tests fill, without a recorder. */
describe.skipIf(chromiumPath === null)(`the market of the page${hint}`, () => {
  const { sql, opened } = panelsOfPage(chromiumPath ?? '')
  let server: RunningServer
  let page: Page
  beforeEach(() => {
    ;({ server, page } = opened())
  })

  test('the market is sorted and filtered, and one of it opens with a click', async () => {
    await page.goto(`${server.url}/?market`)
    const symbols = () => page.locator('.market-rows tbody th button:not(.star)').allInnerTexts()
    await page.getByRole('button', { name: 'Complete 24 h' }).waitFor()
    await page.getByRole('button', { name: 'Instrument' }).click()
    const pair = (coin: string) => [`${coin}USDT`, `${coin}USDT`]
    await expect.poll(symbols).toEqual(['BTC', 'ETH', 'SOL', 'XRP'].flatMap(pair))
    await page.locator('.market-rows .curve.down').nth(7).waitFor()
    // Half of the day that ended ten minutes ago is proven.
    expect(await page.locator('.market-rows tbody tr').first().innerText()).toContain('50 %')
    await page.getByLabel('Filter instruments').fill('btc futures')
    await expect.poll(symbols).toEqual(['BTCUSDT'])
    await page.getByLabel('Filter instruments').press('Enter')
    await page.getByRole('heading', { name: 'BTCUSDT USDT-FUTURES' }).waitFor()
    await page.goBack()
    // The address keeps the filter and the sort.
    await expect.poll(symbols).toEqual(['BTCUSDT'])
    await page.reload()
    await page.locator('th[aria-sort=ascending]', { hasText: 'Instrument' }).waitFor()
    expect(page.url()).toContain('sort=symbol')
    await page.getByLabel('Filter instruments').fill('')
    await page.getByRole('button', { name: 'ETHUSDT', exact: true }).first().click()
    await page.getByRole('heading', { name: /^ETHUSDT/ }).waitFor()
  })

  test.each([
    [1024, 768],
    [390, 844],
  ])('the market cuts no number and no name at %i × %i', async (width, height) => {
    await sql(`update market.tickers set last_price = 0.00140158533127 where symbol = 'XRPUSDT'`)
    await page.setViewportSize({ width, height })
    await page.goto(`${server.url}/?market`)
    await page.getByRole('cell', { name: '0.0014015', exact: true }).first().waitFor()
    const cut = `[...document.querySelectorAll('.market-rows tbody :is(th, td)')]
      .filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent)`
    expect(await page.evaluate<string[]>(cut)).toEqual([])
    const { height: tall = 0 } = (await page.locator('.market-rows tbody tr').first().boundingBox()) ?? {}
    expect(Math.round(tall)).toBe(width > 620 ? 27 : 46)
  })

  test('a copied address shows the same category and kind in another browser', async () => {
    await page.goto(`${server.url}/?market`)
    await page.getByLabel('All categories').selectOption('SPOT')
    await page.getByLabel('All kinds').selectOption({ index: 1 })
    await page.waitForURL(/kind=/)
    await page.goto(page.url())
    await page.locator('.market-rows tbody th').first().waitFor()
    expect(await page.getByLabel('All categories').inputValue()).toBe('SPOT')
    expect(await page.getByLabel('All kinds').inputValue()).not.toBe('')
  })
})
