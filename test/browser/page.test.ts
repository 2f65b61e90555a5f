import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Recorder, startRecorder } from '../../src/app.js'
import { loadConfig } from '../../src/config/resolve.js'
import { operations } from '../../src/market/operation.js'
import { streamNames } from '../../src/market/stream.js'
import { createLogger } from '../../src/runtime/logger.js'
import { expectAccessible } from '../support/accessible.js'
import { launchBrowser, openPage, savedCsv, type WatchedPage } from '../support/browser.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { chromium } from '../support/installed.js'
import { lastingPort } from '../../src/server/embedded/server.js'
import { type SimulatorProcess, startSimulatorProcess } from '../support/simulatorProcess.js'
import { startTcpProxy, type TcpProxy } from '../support/tcpProxy.js'

const { path: chromiumPath, hint } = chromium()
const instrument = '/?category=USDT-FUTURES&symbol=BTCUSDT'
const maxBytes = 300_000
const busy = { isDatabaseBusy: true }

/** The page in a real browser, over a recorder of the simulated exchange. */
describe.skipIf(chromiumPath === null)(`the page${hint}`, () => {
  let simulator: SimulatorProcess
  let testDatabase: TestDatabase
  let proxy: TcpProxy
  let dataDir: string
  let recorder: Recorder
  let port: number
  let browser: Browser
  let watched: WatchedPage
  let page: Page

  async function start(): Promise<void> {
    const config = loadConfig({
      env: { DATABASE_URL: proxy.through(testDatabase.url), EXCHANGE_BASE_URL: simulator.url },
    })
    config.database.dataDir = dataDir
    config.serve.port = port
    config.collector.egress = 'page test'
    config.streams.orderBooks.everySeconds = 5
    config.streams.rpiOrderBooks.everySeconds = 5
    config.streams.candles.settleMs = 1000
    recorder = await startRecorder(config, createLogger('silent'))
  }
  const url = (path: string) => `http://127.0.0.1:${port}${path}`
  async function sql<Row>(text: string, values: unknown[] = []): Promise<Row[]> {
    return (await testDatabase.database.pool.query(text, values)).rows as Row[]
  }
  const cell = (stream: string, column: number) => page.locator(`tr[data-stream=${stream}] > *`).nth(column).innerText()

  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'market-recorder-page-'))
    simulator = await startSimulatorProcess(['--scale', 'tiny'])
    testDatabase = await createTestDatabase()
    proxy = await startTcpProxy(testDatabase.url)
    port = await lastingPort()
    await start()
    // The calendar is read only now and then: opened before anything is proven, it would stay empty for a while.
    await vi.waitUntil(async () => (await sql('select from market.coverage limit 1')).length > 0, { timeout: 240_000 })
    browser = await launchBrowser(chromiumPath ?? '')
    watched = await openPage(browser, url(instrument), busy)
    page = watched.page
    await page.locator('.book tbody.bids tr').first().waitFor()
    await page.locator('.chart canvas').first().waitFor()
  })

  afterAll(async () => {
    await browser?.close()
    await recorder?.stop()
    await proxy?.close()
    await simulator?.close()
    await testDatabase?.drop()
    await rm(dataDir, { recursive: true, force: true })
  })

  test('comes whole in few bytes and paints at once', async () => {
    const fresh = await openPage(browser, url(instrument), busy)
    await fresh.page.locator('.chart canvas').first().waitFor()
    expect(fresh.transferred()).toBeLessThan(maxBytes)
    expect(fresh.transferred()).toBeGreaterThan(50_000)
    expect(fresh.complaints).toEqual([])
    await fresh.page.context().close()
  })

  test.each([
    [1440, 1000],
    [1024, 768],
  ])('shows chart, book and fills of an instrument above the fold of %i × %i', async (width, height) => {
    await page.setViewportSize({ width, height })
    await page.reload()
    await page.locator('.book tbody.bids tr').nth(4).waitFor()
    await page.locator('.fills tbody tr').first().waitFor()
    for (const place of ['#candles .chart', '.book', '#fills']) {
      await expect
        .poll(
          async () => {
            const { y = Infinity, height: tall = 0 } = (await page.locator(place).boundingBox()) ?? {}
            const notices = (await page.locator('.notices').boundingBox())?.height ?? 0
            return y + tall - notices
          },
          { message: place },
        )
        .toBeLessThanOrEqual(height)
    }
    await page.setViewportSize({ width: 1280, height: 720 })
  })

  test('has tabs that back and reload keep, and a title that leads home', async () => {
    await page.goto(url(instrument))
    const tabs = page.getByRole('navigation').getByRole('link')
    expect(await tabs.allInnerTexts()).toEqual(['Status', 'Market', 'BTCUSDT', 'Coverage', 'API'])
    const here = () => page.locator('nav [aria-current=page]').innerText()
    await page.getByRole('link', { name: 'Coverage' }).click()
    await page.locator('.calendar button.day').first().waitFor()
    await page.reload()
    await expect.poll(here).toBe('Coverage')
    await page.goBack()
    await expect.poll(here).toBe('BTCUSDT')
    await page.getByRole('link', { name: 'market-recorder' }).click()
    await expect.poll(here).toBe('Status')
    expect(new URL(page.url()).search).toBe('')
    // Of those with most turnover, the first in dollars.
    await page.getByRole('navigation').getByRole('link', { name: 'BTCUSDT', exact: true }).waitFor()
  })

  test('says that all is well, and what each stream does', async () => {
    await page.goto(url('/'))
    // A busy recorder is late now and then.
    await expect.poll(() => page.locator('.health').innerText()).toBe('Recording')
    const states = () => page.locator('.streams tbody .state').allInnerTexts()
    await expect.poll(states).toEqual(streamNames.slice(5).map(() => 'fresh'))
    // The four of positioning and the components of indexes are off by default.
    await page.getByText('5 streams are off or have nothing to cover').waitFor()
    const { targets, rowsWritten } = recorder.collector.stats.order_books
    expect((await cell('order_books', 2)).split(' ')[0]).toBe(String(targets))
    const stored = Number((await cell('instruments', 6)).replaceAll(',', ''))
    const [counted] = await sql<{ count: number }>('select count(*)::int as count from market.instruments')
    expect(stored).toBe(counted?.count)
    expect(rowsWritten).toBeGreaterThan(0)
    const before = await cell('tickers', 6)
    await expect.poll(() => cell('tickers', 6), { timeout: 240_000 }).not.toBe(before)
  })

  test('shows the budget as live meters', async () => {
    const meters = page.locator('[role=meter]')
    // All requests together, and each operation that a stream uses, by the name of the stream.
    await page.getByRole('meter', { name: /^Order books: / }).waitFor()
    expect(await meters.count()).toBeLessThanOrEqual(operations.length)
    await page.getByText(/^\d+ limits that nothing uses$/).waitFor()
    await expect.poll(async () => Number(await meters.first().getAttribute('aria-valuenow'))).toBeGreaterThan(20)
    expect(await meters.first().getAttribute('aria-valuemax')).toBe('6000')
  })

  test('saves the candles that the database holds, to the last digit', async () => {
    await page.goto(url(instrument))
    await page.locator('#candles .csv').waitFor()
    const isSame = ({ shown, stored }: { shown: string[]; stored: string[] }) =>
      shown.length === 5 && isDeepStrictEqual(shown, stored)
    const compared = async () => {
      const rows = await savedCsv(page, '#candles')
      const [opens = '', ...shown] = rows.at(-4) ?? []
      const [stored] = await sql<Record<string, string>>(
        `select open::text, high::text, low::text, close::text, base_volume::text from market.candles
         where category = 'USDT-FUTURES' and symbol = 'BTCUSDT' and type = 'market' and interval = '1m' and open_time = $1`,
        [opens],
      )
      return { shown: shown.slice(0, 5), stored: Object.values(stored ?? {}) }
    }
    // A candle that has closed this very second reaches the page with the next event.
    await expect.poll(compared).toSatisfy(isSame)
  })

  test('shows the order book of the database, the RPI part told apart', async () => {
    await page.goto(url('/?category=SPOT&symbol=BTCUSDT'))
    await page.locator('.bids td.rpi', { hasNotText: '–' }).first().waitFor()
    // Read at one moment: the next snapshot replaces all of it.
    const shown = await page.evaluate<{ at: string; levels: string[][] }>(`({
      at: document.querySelector('#book .aside').textContent.slice(0, 8),
      levels: [...document.querySelectorAll('.book .bids tr')].map((row) =>
        [...row.children].slice(0, 3).map((cell) => cell.innerText.trim().replaceAll(',', ''))),
    })`)
    const rows = await sql<{ levels: string[][] }>(
      `select array[bid_prices[1:3]::text[], bid_sizes[1:3]::text[], bid_rpi_sizes[1:3]::text[]] as levels
       from market.rpi_order_books
       where category = 'SPOT' and symbol = 'BTCUSDT' and to_char(ts at time zone 'UTC', 'HH24:MI:SS') = $1`,
      [shown.at],
    )
    const stored = rows.map(({ levels: [prices = [], sizes = [], rpi = []] }) =>
      [0, 1, 2].map((i) => [prices[i], sizes[i], Number(rpi[i]) === 0 ? '0' : rpi[i]]),
    )
    expect(stored).toContainEqual(shown.levels.slice(0, 3))
  })

  test('switches the interval and the type, and keeps them in the address', async () => {
    await page.goto(url(instrument))
    await page.getByRole('radio', { name: '15m' }).check()
    await page.getByText('rolled up from 1m').waitFor()
    await page.locator('#candle-type').selectOption('mark')
    await page.getByText('No candles of this kind are stored.').waitFor()
    expect(page.url()).toContain('type=mark&interval=15m')
    await page.goBack()
    await page.getByText('rolled up from 1m').waitFor()
  })

  test('finds an instrument with the keyboard alone; a link shows the same to others', async () => {
    await page.goto(url(instrument))
    await page.locator('.book').waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('btcperp')
    await page.getByRole('option', { name: /BTCPERP/ }).waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'BTCPERP USDC-FUTURES' }).waitFor()
    const other = await openPage(browser, page.url(), busy)
    await other.page.getByRole('heading', { name: 'BTCPERP USDC-FUTURES' }).waitFor()
    expect(other.complaints).toEqual([])
    await other.page.context().close()
  })

  test('never shows what belongs to another instrument, not even to one whose symbol begins the same', async () => {
    const [longer] = await sql<{ symbol: string }>(
      `select symbol from market.latest_tickers where category = 'USDT-FUTURES' and symbol like 'BTCUSDT_%' limit 1`,
    )
    await page.goto(url(`/?category=USDT-FUTURES&symbol=${longer?.symbol ?? 'none'}`))
    await page.locator('.ticker').waitFor()
    await page.locator('.book tbody.bids tr').first().waitFor()
    let release = () => {}
    const held = new Promise<void>((resolve) => (release = resolve))
    await page.route(
      ({ searchParams }) => searchParams.get('symbol') === 'BTCUSDT',
      async (route) => {
        await held
        await route.continue()
      },
    )
    await page.keyboard.press('/')
    await page.keyboard.type('btcusdt')
    await page.getByRole('option', { name: /^BTCUSDT\s*USDT-FUTURES/ }).click()
    await page.getByRole('heading', { name: 'BTCUSDT USDT-FUTURES' }).waitFor()
    const shown = async () => ({
      tickers: await page.locator('.ticker').count(),
      levels: await page.locator('.book tbody tr').count(),
      candles: await page.locator('#candles .chart').getAttribute('aria-label'),
      history: await page.locator('#history .chart').getAttribute('aria-label'),
    })
    expect(await shown()).toEqual({
      tickers: 0,
      levels: 0,
      candles: 'Chart of BTCUSDT: no candles',
      history: 'No tickers in this time',
    })
    release()
    await page.locator('.ticker').waitFor()
    await page.locator('.book tbody.bids tr').first().waitFor()
    await page.unrouteAll()
  })

  test('opens a day of the calendar to the exact ranges, with the keyboard', async () => {
    await page.goto(url('/?category=SPOT&symbol=BTCUSDT&coverage=BTCUSDT'))
    // The whole symbol means that one alone.
    await page.locator('.calendar tbody tr').first().waitFor()
    const named = await page.locator('.calendar tbody th button').allInnerTexts()
    expect(new Set(named)).toEqual(new Set(['BTCUSDT']))
    const day = page.locator('button.day[aria-label^="BTCUSDT"]').last()
    await day.waitFor()
    const rows = await page.locator('.calendar tbody tr').count()
    await page.locator('button.day[tabindex="0"]').focus()
    for (let i = 1; i < rows; i++) await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowLeft')
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('Enter')
    await page.locator('.detail li').first().waitFor()
    const id = new URL(page.url()).searchParams.get('series') ?? ''
    const [stream, category, symbol] = id.split('.')
    const newest = async () => {
      const [covered] = await sql<{ from: string }>(
        `select to_char(greatest(from_time, date_trunc('day', now() at time zone 'UTC') at time zone 'UTC')
           at time zone 'UTC', 'HH24:MI:SS') as "from"
         from market.coverage where stream = $1 and category = $2::market.category and symbol = $3 order by from_time desc`,
        [stream, category, symbol],
      )
      return covered?.from
    }
    // Both grow: of an instrument that is hardly asked yet nothing may be proven at first.
    const isShown = async () => {
      const from = await newest()
      return from !== undefined && (await page.locator('.detail .ranges').innerText()).includes(from)
    }
    await expect.poll(isShown).toBe(true)
  })

  test.each([
    ['dark', { colorScheme: 'dark' }],
    ['light', { colorScheme: 'light' }],
    ['phone', { colorScheme: 'dark', viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }],
  ] as const)('has nothing that axe complains of: %s', async (_name, options) => {
    const day = new Date().toISOString().slice(0, 10)
    const fresh = await openPage(browser, url(instrument), { ...options, bypassCSP: true })
    const views = [
      [instrument, '.book tbody.bids tr'],
      ['/', '.streams tbody tr'],
      ['/?market', '.market-rows tbody tr'],
      [`${instrument}&coverage=BTCUSDT&series=candles.USDT-FUTURES.BTCUSDT.market.1m&day=${day}`, '.detail li'],
      ['/?api', '#api-candles .fields li'],
    ] as const
    for (const [view, place] of views) {
      await fresh.page.goto(url(view))
      await fresh.page.locator(place).first().waitFor()
      await expectAccessible(fresh.page, view)
    }
    await fresh.page.context().close()
  })

  test('has had no error in the console and no request to another host', () => {
    expect(watched.complaints).toEqual([])
  })

  test('says that the database is away, keeps what it shows, and recovers by itself', async () => {
    await proxy.restore()
    await page.goto(url(instrument))
    await page.locator('.book tbody.bids tr').first().waitFor()
    await proxy.refuse()
    await page.getByText('The database has been away').waitFor()
    expect(await page.locator('.book tbody.bids tr').count()).toBeGreaterThan(0)
    await page.locator('.health.bad').waitFor()
    await page.getByText('Nothing is lost: responses go to the disk until it is back.').waitFor()
    await expect.poll(() => page.locator('.health').innerText()).toBe('1 problem')
    expect(await page.locator('.notices p').count()).toBe(1)
    await page.goto(url('/'))
    await page.locator('.streams .state.warn', { hasText: 'fresh, by way of the disk' }).first().waitFor()
    await proxy.restore()
    await page.getByText('The database has been away').waitFor({ state: 'detached' })
    await page.locator('.health.good').waitFor({ timeout: 200_000 })
  })

  test('says that the recorder is away, and recovers by itself after its restart', async () => {
    await recorder.stop()
    await page.getByText('The recorder does not respond; trying again.').waitFor()
    expect(await page.locator('.health').innerText()).toBe('No connection')
    await start()
    await page.getByText('The recorder does not respond').waitFor({ state: 'detached', timeout: 240_000 })
    await page.locator('.health.good').waitFor({ timeout: 200_000 })
    await expect.poll(() => page.locator('.running').innerText(), { timeout: 240_000 }).toMatch(/^up \d+ min/)
    // The browser reports the connections that failed meanwhile; nothing else has gone wrong.
    expect(watched.complaints.filter((text) => !text.includes('ERR_'))).toEqual([])
  })
})
