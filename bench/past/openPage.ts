import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RecorderDatabase } from '../../src/db/database.js'
import { launchBrowser, openPage } from '../../test/support/browser.js'
import { cpuSeconds } from '../tools/processes.js'

/** What comes only once, when a page opens, is over by then. */
const settleMs = 10_000
const sampleMs = 500

/**
 * Opens a page in a browser and measures how much of a core the page's sessions take in the database, as a share. It is
 * null if their processes are not on this machine.
 */
export async function openPageShare(
  database: RecorderDatabase,
  url: string,
  { chromium, seconds }: { readonly chromium: string; readonly seconds: number },
): Promise<number | null> {
  const browser = await launchBrowser(chromium)
  try {
    const { page } = await openPage(browser, url)
    for (const part of ['.chart canvas', '.book .bids tr']) await page.locator(part).first().waitFor()
    await sleep(settleMs)
    const startedMs = performance.now()
    let before = await readUse(database)
    if (before.size === 0) return null
    let used = 0
    while (performance.now() - startedMs < seconds * 1000) {
      await sleep(sampleMs)
      const after = await readUse(database)
      // A session that began since the last look has used nothing before it.
      for (const [pid, seconds] of after) used += seconds - (before.get(pid) ?? 0)
      before = after
    }
    return used / ((performance.now() - startedMs) / 1000)
  } finally {
    await browser.close()
  }
}

/** Reads the processor time of each session of the page, in seconds. */
async function readUse({ pool }: RecorderDatabase): Promise<ReadonlyMap<number, number>> {
  const { rows } = await pool.query<{ pid: number }>(
    `select pid from pg_stat_activity where datname = current_database() and application_name = 'market-recorder page'`,
  )
  const seconds = new Map<number, number>()
  for (const { pid } of rows) {
    // The server may be on another machine, and this number that of a process here.
    if ((await readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '')).startsWith('postgres'))
      seconds.set(pid, await cpuSeconds(pid))
  }
  return seconds
}
