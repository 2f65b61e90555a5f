import type { Browser, Page } from 'playwright-core'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config/resolve.js'
import { createMetrics } from '../../src/runtime/metrics.js'
import { type RunningServer, startServer } from '../../src/serve/server.js'
import { launchBrowser, openPage, type WatchedPage } from '../support/browser.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { chromium } from '../support/installed.js'
import { freshen, settableSource } from '../support/recorderSource.js'

const { path: chromiumPath, hint } = chromium()
const instrument = '/?category=SPOT&symbol=BTCUSDT'

/** Panels of the page over a database that the tests fill, without a recorder. */
describe.skipIf(chromiumPath === null)(`panels of the page${hint}`, () => {
  const source = settableSource(Date.now() - 60_000)
  let testDatabase: TestDatabase
  let server: RunningServer
  let browser: Browser
  let watched: WatchedPage
  let page: Page

  async function sql(text: string): Promise<void> {
    await testDatabase.database.pool.query(text)
  }

  beforeAll(async () => {
    testDatabase = await createTestDatabase()
    await sql(`
      insert into market.instruments (category, symbol, base_coin, quote_coin, status, kind, price_precision, first_seen_at, updated_at)
      select c, coin || 'USDT', coin, 'USDT', 'online', 'crypto', 1, now(), now()
      from unnest('{SPOT,USDT-FUTURES}'::market.category[]) as c cross join unnest('{BTC,ETH,SOL,XRP}'::text[]) as coin;
      insert into market.tickers (category, symbol, ts, last_price, bid1_price, ask1_price, funding_rate, turnover_24h, received_at)
      select category, symbol, now() - h * interval '1 hour' - interval '20 seconds', 100 + h, 99, 101,
        case when category <> 'SPOT' then 0.0001 end, 1000, now()
      from market.instruments cross join generate_series(0, 9) as h;
      insert into recorder.known (stream, category, symbol, type, interval, verdict, ranges)
      select 'candles', category, symbol, 'market', '1m', 'recorded',
        tstzmultirange(tstzrange(now() - interval '12 hours 10 minutes', now()))
      from market.instruments where symbol = 'BTCUSDT'`)
    const config = loadConfig({ env: {} })
    config.serve.port = 0
    freshen(source, Date.now())
    server = await startServer({
      config,
      source,
      metrics: createMetrics({ version: 'test' }),
      databaseUrl: testDatabase.url,
      version: 'test',
      logger: pino({ level: 'silent' }),
    })
    browser = await launchBrowser(chromiumPath ?? '')
  })

  beforeEach(async () => {
    freshen(source, Date.now())
    watched = await openPage(browser, server.url)
    page = watched.page
  })

  afterEach(async () => {
    expect(watched.complaints).toEqual([])
    await page.context().close()
  })

  afterAll(async () => {
    await browser?.close()
    await server?.close()
    await testDatabase?.drop()
  })

  test('the market is sorted and filtered, and one of it opens with a click', async () => {
    await page.goto(`${server.url}/?market`)
    const symbols = () => page.locator('.market-rows tbody th button:not(.star)').allInnerTexts()
    await page.getByRole('button', { name: 'Instrument' }).click()
    const pair = (coin: string) => [`${coin}USDT`, `${coin}USDT`]
    await expect.poll(symbols).toEqual(['BTC', 'ETH', 'SOL', 'XRP'].flatMap(pair))
    await page.locator('.market-rows .curve.down').nth(7).waitFor()
    // Of the day that ended ten minutes ago half is proven.
    expect(await page.locator('.market-rows tbody tr').first().innerText()).toContain('50 %')
    await page.getByLabel('Filter instruments').fill('btc futures')
    await expect.poll(symbols).toEqual(['BTCUSDT'])
    await page.getByRole('button', { name: 'BTCUSDT', exact: true }).click()
    await page.getByRole('heading', { name: 'BTCUSDT USDT-FUTURES' }).waitFor()
  })

  test('favourites are kept in the browser', async () => {
    await page.goto(`${server.url}/?market`)
    await page.getByRole('button', { name: '★ Favourites' }).click()
    await page.getByText('No favourites yet: the star before a symbol makes it one.').waitFor()
    await page.getByRole('button', { name: '★ Favourites' }).click()
    await page.getByRole('button', { name: 'Favourite SOLUSDT SPOT' }).click()
    await page.reload()
    await page.getByRole('button', { name: '★ Favourites' }).click()
    await page.getByText('1 of 8').waitFor()
    expect(await page.locator('.market-rows tbody th').innerText()).toContain('SOLUSDT')
  })

  test('the search finds by words, and says when nothing matches', async () => {
    await page.goto(server.url + instrument)
    await page.getByLabel('Search instruments').fill('xrp futures')
    await page.getByRole('option', { name: /XRPUSDT\s*USDT-FUTURES/ }).waitFor()
    await page.getByLabel('Search instruments').fill('no such thing')
    await page.getByText('Nothing matches “no such thing”.').waitFor()
  })
})
