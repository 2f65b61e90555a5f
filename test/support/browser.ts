import { readFile } from 'node:fs/promises'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'

/** A page, and everything about it that should never happen. */
export interface WatchedPage {
  readonly page: Page
  /** Errors and warnings of the console, uncaught errors, and requests to other hosts. */
  readonly complaints: string[]
  /** Bytes of all answers as they came over the wire, headers included. */
  transferred(): number
}

/** Without a network of its own: a browser asks its maker for updates and what not. */
const flags = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/** @param more further flags of the browser */
export function launchBrowser(path: string, more: readonly string[] = []): Promise<Browser> {
  return chromium.launch({ executablePath: path, args: [...flags, ...more] })
}

interface PageOptions extends BrowserContextOptions {
  /** True where a recorder keeps the database so busy that it may not respond to the page in time. */
  readonly isDatabaseBusy?: boolean
}

export async function openPage(
  browser: Browser,
  url: string,
  { isDatabaseBusy = false, ...options }: PageOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options })
  const page = await context.newPage()
  // Generous: other tests may have the processor at the same time.
  page.setDefaultTimeout(240_000)
  const complaints: string[] = []
  const { host } = new URL(url)
  let bytes = 0
  const session = await context.newCDPSession(page)
  await session.send('Network.enable')
  session.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength
  })
  page.on('console', (message) => {
    if (isDatabaseBusy && message.text().includes('status of 503')) return
    // The browser itself reports every connection that fails; when that is expected a test clears the list.
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(`console: ${message.text()}`)
  })
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`))
  page.on('request', (request) => {
    if (new URL(request.url()).host !== host) complaints.push(`request to ${request.url()}`)
  })
  await page.goto(url)
  return { page, complaints, transferred: () => bytes }
}

/** Saves what a panel shows as CSV. Resolves to its rows and cells. */
export async function savedCsv(page: Page, panel: string): Promise<string[][]> {
  const downloading = page.waitForEvent('download')
  await page.locator(`${panel} .csv`).click()
  const text = await readFile(await (await downloading).path(), 'utf8')
  return text
    .trimEnd()
    .split('\r\n')
    .map((row) => row.split(','))
}
