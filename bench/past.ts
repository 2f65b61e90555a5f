import { existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { RecorderDatabase } from '../src/db/database.js'
import { dayMs } from '../src/market/values.js'
import { testStorage } from '../test/support/databaseServer.js'
import { openPageShare } from './past/openPage.js'
import { finish, shown, storeNewestDay, storePast, storeShownPast } from './past/data.js'
import { servePage } from './page/market.js'
import { atMost, type Check, figure, median, printChecks } from './tools/checks.js'
import { type BenchDatabase, communityUrl, requireCommunity, withDatabaseOn } from './tools/database.js'

/** Most milliseconds of a call of the API, and how many times as long as without a past it may take. */
const max = { ms: 100, times: 2 } as const
/** Most of a core of the database that an open page may take. */
const maxShare = 2

/**
 * Measures whether the page gets slower with the past that is behind it: what each call of its API takes and what an
 * open page costs the database, with millions of candles and a year of chunks. In turns it asks a database that holds
 * only what these calls return.
 * Needs a TimescaleDB Community server, on which it makes both; on this machine, if the cost is to be measured, too.
 */
export async function benchPast(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      url: { type: 'string' },
      candles: { type: 'string', default: '20000000' },
      chunks: { type: 'string', default: '1460' },
      rounds: { type: 'string', default: '21' },
      seconds: { type: 'string', default: '40' },
      chromium: { type: 'string', default: '/usr/bin/chromium' },
    },
  })
  const serverUrl = communityUrl(values.url)
  const size = { candles: Number(values.candles), bookChunks: Number(values.chunks) }
  const { chromium } = values
  const checks = await withDatabaseOf(serverUrl, async (newest) =>
    withDatabaseOf(serverUrl, async (past) => {
      const made = await makeBoth(newest.database, past.database, size)
      const [newestPage, pastPage] = await Promise.all([servePage(newest.url), servePage(past.url)])
      try {
        return [
          figure('1m candles, and chunks of all tables', `${made.candles}, ${made.chunks}`),
          ...(await compareCalls(newestPage.url, pastPage.url, made.end, Number(values.rounds))),
          ...(existsSync(chromium)
            ? [await openPageCost(past.database, pastPage.url, { chromium, seconds: Number(values.seconds) })]
            : [figure('an open page', `not measured: ${chromium} is not there; give --chromium PATH`)]),
        ]
      } finally {
        await Promise.all([newestPage.close(), pastPage.close()])
      }
    }),
  )
  return printChecks(checks)
}

type Made = Pick<BenchDatabase, 'url' | 'database'>

/** Calls `use` with a database whose books have many chunks. */
async function withDatabaseOf<Result>(serverUrl: string, use: (made: Made) => Promise<Result>): Promise<Result> {
  const storage = { ...testStorage, order_books: { ...testStorage.order_books, chunkHours: 6 } }
  const withCommunity = async (made: Made) => {
    await requireCommunity(made.database)
    return use(made)
  }
  return withDatabaseOn(serverUrl, 'past', withCommunity, storage)
}

async function makeBoth(newest: RecorderDatabase, past: RecorderDatabase, size: Parameters<typeof storePast>[2]) {
  const startedMs = performance.now()
  await storeShownPast(newest, await storeNewestDay(newest), size)
  await finish(newest)
  const end = await storeNewestDay(past)
  await storePast(past, end, size)
  const counts = await finish(past)
  console.log(`both databases: made in ${((performance.now() - startedMs) / 1000).toFixed(0)} s`)
  return { ...counts, end }
}

/** Calls of the page, of an instrument and of all. */
function callsOf(end: number): readonly string[] {
  return [
    '/api/status',
    '/api/instruments?search=past07',
    '/api/instruments/busiest',
    `/api/instrument?${shown}`,
    '/api/market',
    '/api/curves?keys=USDT-FUTURES:PAST000USDT,USDT-FUTURES:PAST001USDT',
    ...['1m', '5m', '1H', '1D'].map((interval) => `/api/candles?${shown}&interval=${interval}&limit=500`),
    `/api/history?${shown}&hours=168`,
    '/api/calendar?limit=12&days=42',
    `/api/coverage?stream=candles&type=market&interval=1m&${shown}&from=${end - 10 * dayMs}&to=${end}`,
  ]
}

async function compareCalls(newestUrl: string, pastUrl: string, end: number, rounds: number): Promise<Check[]> {
  const checks: Check[] = []
  for (const call of callsOf(end)) {
    const [newest, past]: [number[], number[]] = [[], []]
    // The first round fills caches.
    for (let round = 0; round <= rounds; round++) {
      const newestMs = await timeOf(newestUrl + call)
      const pastMs = await timeOf(pastUrl + call)
      if (round === 0) continue
      newest.push(newestMs)
      past.push(pastMs)
    }
    const [newestMs, pastMs] = [median(newest), median(past)]
    const what = call.replace(shown, '…')
    const detail = `${newestMs.toFixed(1)} : ${pastMs.toFixed(1)} ms`
    checks.push(atMost(`${what}, median`, pastMs, max.ms, { unit: 'ms', decimals: 1 }))
    checks.push(atMost(`${what}, in times of a database without the rest`, pastMs / newestMs, max.times, { detail }))
  }
  return checks
}

async function timeOf(url: string): Promise<number> {
  const startedMs = performance.now()
  const response = await fetch(url)
  const text = await response.text()
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`)
  return performance.now() - startedMs
}

async function openPageCost(
  database: RecorderDatabase,
  url: string,
  options: { readonly chromium: string; readonly seconds: number },
): Promise<Check> {
  const share = await openPageShare(database, `${url}/?${shown}`, options)
  if (share === null) return figure('an open page', 'not measured: the server is not on this machine')
  return atMost('share of a core of the database that an open page takes', share * 100, maxShare, { unit: '%' })
}
