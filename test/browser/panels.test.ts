import type { Page } from 'playwright-core'
import { beforeEach, describe, expect, test } from 'vitest'
import type { RunningServer } from '../../src/serve/server.js'
import { savedCsv } from '../support/browser.js'
import { chromium } from '../support/installed.js'
import { panelsOfPage } from '../support/panelsOfPage.js'

const { path: chromiumPath, hint } = chromium()
const instrument = '/?category=SPOT&symbol=BTCUSDT'

/** Panels of the page over a database that the tests fill, without a recorder. */
describe.skipIf(chromiumPath === null)(`panels of the page${hint}`, () => {
  const { source, sql, opened } = panelsOfPage(chromiumPath ?? '')
  let server: RunningServer
  let page: Page
  beforeEach(() => {
    ;({ server, page } = opened())
  })

  const chart = (name: RegExp) => page.getByRole('img', { name })
  const goTo = async (text: string) => {
    await page.getByLabel('Go to').fill(text)
    await page.getByLabel('Go to').press('Enter')
  }

  test('book and fills are those of the time that the chart shows, and are saved as they are stored', async () => {
    await sql(`
      truncate market.order_books, market.fills;
      insert into market.order_books (category, symbol, ts, bid_prices, bid_sizes, ask_prices, ask_sizes, received_at)
      values ('SPOT', 'BTCUSDT', '2026-01-10 11:59:58Z', '{1234.50}', '{0.10}', '{1235}', '{4}', now()),
        ('SPOT', 'BTCUSDT', now(), '{777}', '{1}', '{778}', '{1}', now());
      insert into market.fills (category, symbol, ts, exec_id, side, price, size, received_at)
      values ('SPOT', 'BTCUSDT', '2026-01-10 11:59:57.123Z', '7', 'sell', 1234.5, 0.250, now())`)
    await page.goto(`${server.url}${instrument}&at=2026-01-10T12:00`)
    await page.locator('.bids .price', { hasText: '1,234.50' }).waitFor()
    await page.locator('.candle-line time', { hasText: '2026-01-10 12:00' }).waitFor()
    await page.locator('#book .aside', { hasText: '2026-01-10 11:59:58' }).waitFor()
    await page
      .locator('.instrument:not(:has(#history)):not(:has(.ticker))', { hasText: 'No ticker of then.' })
      .waitFor()
    await page.locator('.fills tbody tr', { hasText: '1,234.5' }).waitFor()
    expect(await savedCsv(page, '#book')).toEqual([
      ['ts', 'side', 'level', 'price', 'size', 'rpi_size'],
      ['2026-01-10T11:59:58.000Z', 'bid', '1', '1234.50', '0.10', ''],
      ['2026-01-10T11:59:58.000Z', 'ask', '1', '1235', '4', ''],
    ])
    expect((await savedCsv(page, '#fills'))[1]).toEqual(['2026-01-10T11:59:57.123Z', '7', 'sell', '1234.5', '0.250'])
    // Scrolled away from that moment, they follow the right edge of the chart.
    for (let i = 0; i < 2; i++) await page.getByRole('button', { name: 'Earlier', exact: true }).click()
    await page.getByText(/^No order book of the ten minutes before 2026-01-(10 [01]|09)/).waitFor()
    await page.getByRole('button', { name: 'Newest' }).click()
    await page.locator('.bids .price', { hasText: '777' }).waitFor()
    // Where the chart has nothing of a moment, they are of that moment all the same.
    await goTo('2026-01-10 12:00')
    await page.locator('.bids .price', { hasText: '1,234.50' }).waitFor()
    await goTo('2025-12-01 12:00')
    await page.getByText('No order book of the ten minutes before 2025-12-01 12:00:00 is stored.').waitFor()
    await page.getByRole('radio', { name: '1D', exact: true }).click()
    await page.waitForURL(/interval=1D&at=2025-12-01T12%3A00/)
    // A moment may be written as the commands take it.
    await goTo('2025-12-02')
    await page.waitForURL(/at=2025-12-02T00%3A00/)
    await goTo('2999-01-01')
    const hint = `document.querySelector('.chart-buttons input').validationMessage`
    await expect.poll(() => page.evaluate<string>(hint)).toBe('This time is still to come.')
    expect(page.url()).toContain('at=2025-12-02')
    await sql('truncate market.order_books, market.fills')
  })

  test('a command is copied', async () => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.goto(server.url)
    await page.locator('#backfills').getByRole('button', { name: 'Copy' }).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    expect(await page.evaluate<string>('navigator.clipboard.readText()')).toBe('npx market-recorder backfill --help')
  })

  test('the chart goes to a time, and is walked from there without an end', async () => {
    await page.goto(server.url + instrument)
    await chart(/^Chart of \d+ 1m candles/).waitFor({ timeout: 120_000 })
    await goTo('2026-01-10 12:00')
    await chart(/newest opened 2026-01-10 16:09:00, closed/).waitFor()
    for (let i = 0; i < 3; i++) await page.getByRole('button', { name: 'Zoom out' }).click()
    const walked = (name: string, until: RegExp) =>
      expect
        .poll(async () => {
          for (let i = 0; i < 3; i++) await page.getByRole('button', { name, exact: true }).click()
          return chart(until).count()
        })
        .toBe(1)
    await walked('Later', /^Chart of 5000 .* newest opened 2026-01-1[4-9]/)
    await walked('Earlier', /^Chart of 5000 .* from 2026-01-0[1-8]/)
    await page.getByRole('button', { name: 'Newest' }).click()
    // More candles than the first page follow at once where the chart has room for them.
    await chart(/^Chart of \d+ 1m candles .* newest opened .*, forming/).waitFor()
    expect(page.url()).not.toContain('at=')
    await goTo('2026-02-10T12:00')
    await page
      .getByText(/^No candles of this kind are stored around 2026-02-10T12:00 \(the chart shows the nearest, of /)
      .waitFor()
    await page.getByText(/ --from 2026-02-10 --to 2026-02-11$/).waitFor()
    // The chart loads later candles, and stays where it was sent.
    await chart(/^Chart of \d+ 1m candles .* newest opened 2026-03-/).waitFor()
    await page.getByText('No order book of the ten minutes before 2026-02-10 12:00:00 is stored.').waitFor()
    await page.getByRole('radio', { name: '5m', exact: true }).click()
    await page.waitForURL(/interval=5m&at=2026-02-10T12%3A00/)
  })

  test('the chart keeps the moment asked for when the interval changes, until one scrolls', async () => {
    await sql(`insert into market.candles select 'SPOT', 'ETHUSDT', 'market', '1m', t, 100, 102, 99, 101, 1, 100, true
      from generate_series(date_trunc('minute', now()) - interval '5 hours', now(), '1 minute') as t
      on conflict do nothing`)
    const at = new Date(Date.now() - 1_800_000).toISOString().slice(0, 16)
    const isAt = ({ searchParams }: URL) => searchParams.get('at') === at
    const chosen = (interval: string) => page.getByRole('radio', { name: interval, exact: true }).click()
    await page.goto(`${server.url}/?category=SPOT&symbol=ETHUSDT&at=${at}`)
    await chart(/^Chart of \d+ 1m candles/).waitFor()
    for (const interval of ['1D', '5m']) {
      await chosen(interval)
      await chart(new RegExp(`^Chart of \\d+ ${interval} candles`)).waitFor()
      await page.waitForURL(isAt)
    }
    const ofThen = page.getByText(`No order book of the ten minutes before ${at.replace('T', ' ')}:00 is stored.`)
    await ofThen.waitFor()
    await expect
      .poll(async () => {
        const { x = 0, y = 0, width = 0 } = (await chart(/^Chart of/).boundingBox()) ?? {}
        await page.mouse.move(x + width * 0.2, y + 100)
        await page.mouse.down()
        await page.mouse.move(x + width * 0.8, y + 100, { steps: 4 })
        await page.mouse.up()
        return ofThen.count()
      })
      .toBe(0)
    await chosen('1m')
    await page.waitForURL((url) => url.searchParams.has('at') && !isAt(url))
  })

  test('the chart of an address with a time stays there while more candles come', async () => {
    // The chart is there before its candles.
    await page.route('**/api/candles*', (route) => setTimeout(() => void route.continue(), 1_000))
    await page.goto(`${server.url}${instrument}&at=2026-01-10T12:00`)
    const shown = chart(/^Chart of \d+ 1m candles/)
    await shown.waitFor()
    const { width = 0, height = 0 } = (await shown.boundingBox()) ?? {}
    // The line above the chart tells the candle under the pointer.
    const under = async (x: number) => {
      await shown.hover({ position: { x, y: height / 3 } })
      return page.locator('.candle-line time').innerText()
    }
    await expect.poll(() => under(width / 2)).toMatch(/^2026-01-10 1(1:[45]|2:[01])/)
    for (let i = 0; i < 3; i++) await page.getByRole('button', { name: 'Zoom out' }).click()
    await chart(/^Chart of 1[05]00 1m candles/).waitFor()
    await expect.poll(() => under(width - 120)).toMatch(/^2026-01-10 12:[0-3]/)
    await page.getByText('No order book of the ten minutes before 2026-01-10 12:00:00 is stored.').waitFor()
  })

  test('asks on until the chart is full, where an answer holds only some of the candles', async () => {
    await sql(
      `insert into market.candles
       select category, symbol, 'index', '1m', t, 1, 2, 1, 2, 0, 0, true
       from market.instruments
       cross join generate_series(date_trunc('day', now()) - interval '150 days', now(), '1 day') as t
       where category = 'USDT-FUTURES' and symbol = 'BTCUSDT' on conflict do nothing`,
    )
    await page.goto(`${server.url}/?category=USDT-FUTURES&symbol=BTCUSDT&type=index&interval=1D`)
    await page.getByRole('img', { name: 'Chart of 151 1D candles' }).waitFor()
  })

  test('the chart takes longer candles when it is zoomed out', async () => {
    await page.goto(`${server.url}${instrument}&at=2026-01-20T12:00`)
    await chart(/^Chart of \d+ 1m candles/).waitFor()
    await expect
      .poll(async () => {
        await page.getByRole('button', { name: 'Zoom out' }).click()
        return page.getByRole('radio', { name: '1m', exact: true }).isChecked()
      })
      .toBe(false)
    await page.getByText('rolled up from 1m').waitFor()
    expect(page.url()).toMatch(/&interval=.*&at=202/)
  })

  test('the last candle and its price follow the fills', async () => {
    // A ticker of this minute would form a candle, too.
    await sql(`delete from market.tickers where category = 'USDT-FUTURES' and symbol = 'ETHUSDT'`)
    await sql(`delete from market.candles where category = 'USDT-FUTURES' and symbol = 'ETHUSDT'`)
    await sql(`delete from market.fills where category = 'USDT-FUTURES' and symbol = 'ETHUSDT'`)
    await sql(`insert into market.candles values
      ('USDT-FUTURES', 'ETHUSDT', 'market', '1m', date_trunc('minute', now() - interval '1 minute'), 10, 12, 9, 11, 1, 10, true)`)
    await page.goto(`${server.url}/?category=USDT-FUTURES&symbol=ETHUSDT`)
    await chart(/^Chart of 1 1m candles.* closed, at 11;/).waitFor()
    await sql(`insert into market.fills (category, symbol, ts, exec_id, side, price, size, received_at)
      values ('USDT-FUTURES', 'ETHUSDT', now() + interval '1 second', '1', 'buy', 13.5, 1, now())`)
    await chart(/^Chart of 2 1m candles.* forming, at 13.5;/).waitFor()
  })

  test('the book sums up its levels', async () => {
    await sql(`insert into market.order_books (category, symbol, ts, bid_prices, bid_sizes, ask_prices, ask_sizes, received_at)
      values ('SPOT', 'SOLUSDT', now(), '{99,98}', '{1.5,2.25}', '{101}', '{4}', now())`)
    await page.goto(`${server.url}/?category=SPOT&symbol=SOLUSDT`)
    await page.locator('.bids td.sum').nth(1).waitFor()
    expect(await page.locator('.bids td.sum').allInnerTexts()).toEqual(['1.50', '3.75'])
    expect(await page.locator('.book th').allInnerTexts()).toEqual(['Price', 'Visible', 'Sum'])
    expect(await page.locator('#book .legend').count()).toBe(0)
  })

  test('the book with its RPI part stays in its box', async () => {
    await sql(`insert into market.rpi_order_books
        (category, symbol, ts, bid_prices, bid_sizes, bid_rpi_sizes, ask_prices, ask_sizes, ask_rpi_sizes, received_at)
      values ('SPOT', 'XRPUSDT', now(), '{107734.68}', '{0.06017}', '{0.01114}', '{107790.72}', '{1.06161}', '{0.01258}', now())`)
    await page.setViewportSize({ width: 1024, height: 768 })
    await page.goto(`${server.url}/?category=SPOT&symbol=XRPUSDT`)
    await page.locator('.bids td.rpi', { hasText: '0.01114' }).waitFor()
    const { x = 0, width = 0 } = (await page.locator('#book').boundingBox()) ?? {}
    const table = (await page.locator('.book').boundingBox()) ?? { x: 0, width: Infinity }
    expect(table.x + table.width).toBeLessThanOrEqual(x + width - 12)
    const head = (await page.locator('#book .panel-head').boundingBox()) ?? { height: Infinity }
    expect(head.height).toBeLessThan(40)
    // Both bars begin at the right edge, and that of the RPI part runs below the digits.
    const visible = (await page.locator('.asks .depth .visible').boundingBox()) ?? { x: 0, width: 0 }
    const rpi = (await page.locator('.asks .depth .rpi').boundingBox()) ?? { x: 0, width: 0, height: 0 }
    expect(rpi.x + rpi.width).toBeCloseTo(visible.x + visible.width)
    expect(rpi.height).toBe(3)
  })

  test('a funding rate is drawn where there is one, over the whole of the chosen time', async () => {
    await page.goto(`${server.url}/?category=USDT-FUTURES&symbol=BTCUSDT`)
    await page.locator('#funding canvas').first().waitFor()
    await page.getByText('each 15 s').waitFor()
    await page.goto(server.url + instrument)
    await page.locator('#history canvas').first().waitFor()
    await page.getByText('each 15 s').waitFor()
    expect(await page.locator('#funding').count()).toBe(0)
  })

  test('panels without anything say what brings it', async () => {
    await page.goto(`${server.url}/?category=SPOT&symbol=XRPUSDT`)
    await page.getByText('npx market-recorder backfill --category SPOT --symbol XRPUSDT --interval 1m').waitFor()
    await page.locator('#candle-type').selectOption('mark')
    await page.getByText('Only futures have mark candles.').waitFor()
    await page.goto(`${server.url}/?category=SPOT&symbol=NOSUCH`)
    await page.getByText('The recorder does not know this instrument.').waitFor()
    await page.locator('.candle-line', { hasText: /^No candles are stored\.$/ }).waitFor()
    await page.goto(server.url)
    await page.getByText('No history is being fetched.').waitFor()
  })

  test('backfills are one line, with those that run or failed', async () => {
    const backfill = { what: 'candles of A', doneShare: 0.25, reachedAt: 0, etaMs: 120_000, message: null }
    const states = ['running', 'failed', ...Array.from({ length: 40 }, () => 'waiting' as const)] as const
    source.state.backfills = states.map((state, index) => ({ ...backfill, id: `${index}`, state }))
    await page.goto(server.url)
    await page.getByText('1 running, 40 waiting, 1 failed; those that run end in 2 min').waitFor()
    await page.getByText('npx market-recorder backfill --cancel').waitFor()
    expect(await page.locator('.backfills li').count()).toBe(2)
    source.state.backfills = []
  })

  test('a stream says that its rows go by way of the disk, and why it leaves instruments out', async () => {
    source.state.stats.fills.leftOut = { kind: 2813, turnover: 0, number: 0, limits: 0 }
    source.state.backlog = { ...source.state.backlog, isSpooling: true, spooledBytes: 600_000 }
    await page.goto(server.url)
    await page.locator('tr[data-stream=fills] .state.warn', { hasText: 'fresh, by way of the disk' }).waitFor()
    source.state.backlog = { ...source.state.backlog, isSpooling: false, spooledBytes: 0 }
    await page.getByRole('link', { name: 'of 2,814' }).click()
    await page.getByText('Fills: 2,813 of kinds that select.kinds does not name.').waitFor()
    // Its gaps are those that the tile counts, and are in view on a phone.
    await sql(`select recorder.note_unknown('fills', 'SPOT', 'SOLUSDT', '', '', '{[2026-01-01,2026-01-02)}', 'missed')`)
    await page.setViewportSize({ width: 390, height: 844 })
    await page.locator('.tile', { hasText: '1 open' }).waitFor()
    const gaps = page.locator('tr[data-stream=fills] td:last-child', { hasText: /^1$/ })
    const { x = 0, width = 0 } = (await gaps.boundingBox()) ?? {}
    expect(x + width).toBeLessThanOrEqual(390 - 21)
  })

  test('an incident that has ended says how long it lasted', async () => {
    const at = Date.now()
    const times = { since: at - 4_000, lastAt: at, until: at }
    source.state.incidents = [{ what: 'storing', message: 'slow', count: 2, ...times }]
    await page.goto(server.url)
    await page.getByText('failed 2 times in 4.0 s, works again').waitFor()
    source.state.incidents = [1, 2, 3].map((number) => {
      return { what: 'storing', message: 'slow', count: 1, ...times, since: at - number * 60_000 }
    })
    await page.getByText(/2 before, from /).waitFor()
    expect(await page.locator('.incidents li').count()).toBe(1)
    source.state.incidents = (['tickers', 'fills'] as const).map((what) => {
      return { what, message: `${what} SPOT: network: connection refused`, count: 3, ...times, until: null }
    })
    await page.getByText(/^tickers, fills$/).waitFor()
    await page.getByText(/^failed 6 times, for /).waitFor()
    expect(await page.locator('.incidents li').count()).toBe(1)
    source.state.incidents = []
  })

  test('the API is a page to read', async () => {
    await page.goto(server.url + instrument)
    await page.getByRole('link', { name: 'API', exact: true }).click()
    await page.getByRole('link', { name: '/api/candles' }).click()
    await page.getByRole('heading', { name: '/api/candles' }).waitFor()
    const command = await page.locator('#api-candles .command code').innerText()
    const address = /^curl '(.*)'$/.exec(command)?.[1] ?? ''
    expect((await fetch(address)).status, command).toBe(200)
    expect(await page.getByRole('link', { name: 'OpenAPI 3.1' }).getAttribute('href')).toBe('/api')
    await page.getByText('openTime').first().waitFor()
  })

  test('nothing is wider than an enlarged page', async () => {
    await page.setViewportSize({ width: 320, height: 225 })
    for (const path of ['/', '/?market', instrument, '/?coverage', '/?api']) {
      await page.goto(server.url + path)
      await page.locator('.panel').first().waitFor()
      await expect
        .poll(() => page.evaluate<number>('document.documentElement.scrollWidth'), { message: path })
        .toBe(320)
    }
  })

  test('marks keep their colours where the system chooses all others', async () => {
    await page.emulateMedia({ forcedColors: 'active' })
    await page.goto(`${server.url}/?coverage`)
    await page.locator('button.day.partial').last().waitFor()
    const style = `getComputedStyle(document.querySelector('button.day.partial')).backgroundImage`
    expect(await page.evaluate<string>(style)).toContain('linear-gradient')
  })

  test('the search finds by words, and says when nothing matches', async () => {
    await page.goto(server.url + instrument)
    await page.getByLabel('Search instruments').fill('xrp futures')
    await page.getByRole('option', { name: /XRPUSDT\s*USDT-FUTURES/ }).waitFor()
    await page.getByLabel('Search instruments').fill('btc')
    await page.getByRole('option').first().filter({ hasText: 'BTCUSDT' }).waitFor()
    await page.getByLabel('Search instruments').fill('no such thing')
    await page.getByText('Nothing matches “no such thing”.').waitFor()
  })
})
