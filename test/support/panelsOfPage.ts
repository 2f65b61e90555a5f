import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { serviceMs } from '../../src/market/values.js'
import type { RunningServer } from '../../src/serve/server.js'
import { launchBrowser, openPage, type WatchedPage } from './browser.js'
import { createTestDatabase, type TestDatabase } from './database.js'
import { freshen, serveSource, settableSource } from './recorderSource.js'

/** Opens a page for each test, over a database of four coins in two categories, without a recorder. */
export function panelsOfPage(chromiumPath: string) {
  const source = settableSource(Date.now() - 60_000)
  let testDatabase: TestDatabase
  let server: RunningServer
  let browser: Browser
  let watched: WatchedPage
  let freshening: NodeJS.Timeout

  async function sql(text: string): Promise<void> {
    await testDatabase.database.pool.query(text)
  }

  beforeAll(async () => {
    testDatabase = await createTestDatabase()
    await sql(`
      insert into market.instruments (category, symbol, base_coin, quote_coin, status, kind, price_precision, first_seen_at, updated_at)
      select c, coin || 'USDT', coin, 'USDT', 'online', 'crypto', 1, now(), now()
      from unnest('{SPOT,USDT-FUTURES}'::market.category[]) as c cross join unnest('{BTC,ETH,SOL,XRP}'::text[]) as coin;
      insert into market.tickers (category, symbol, ts, last_price, bid1_price, ask1_price, funding_rate, turnover_24h, price_24h_pcnt, received_at)
      select category, symbol, now() - h * interval '1 hour' - interval '20 seconds', 100 + h, 99, 101,
        case when category <> 'SPOT' then 0.0001 end, 485300000, -0.01, now()
      from market.instruments cross join generate_series(0, 9) as h;
      insert into recorder.ledger (stream, category, symbol, type, interval, verdict, ranges)
      select 'candles', category, symbol, 'market', '1m', 'recorded',
        tstzmultirange(tstzrange(now() - interval '12 hours 10 minutes', now()))
      from market.instruments where symbol = 'BTCUSDT';
      insert into market.candles
      select 'SPOT', 'BTCUSDT', 'market', '1m', t, 100, 102, 99, 101, 1, 100, true
      from (values (timestamptz '2026-01-01', timestamptz '2026-02-01'), ('2026-03-01', '2026-03-08')) as stretch (begin, until),
        generate_series(begin, until, '1 minute') as t`)
    // A busy machine takes a while to show a page, and the recorder goes on meanwhile.
    freshen(source, Date.now())
    freshening = setInterval(() => freshen(source, Date.now()), 1_000)
    source.state.serviceNow = () => serviceMs(Date.now())
    server = await serveSource(source, testDatabase.url)
    browser = await launchBrowser(chromiumPath)
  })

  beforeEach(async () => {
    watched = await openPage(browser, server.url)
  })

  afterEach(async () => {
    expect(watched.complaints).toEqual([])
    await watched.page.context().close()
  })

  afterAll(async () => {
    clearInterval(freshening)
    await browser?.close()
    await server?.close()
    await testDatabase?.drop()
  })

  /** Returns the server, and the page of the test that runs. */
  const opened = (): { readonly server: RunningServer; readonly page: Page } => ({ server, page: watched.page })
  return { source, sql, opened }
}
