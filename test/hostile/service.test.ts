import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import type { Operation } from '../../src/market/operation.js'
import { type AttackedRecorder, startAttackedRecorder } from './attackedRecorder.js'
import { evilPrice, type Mode, modes, pausingModes } from './modes.js'
import { longTurnMs, residentBytes, watchHealth } from './watch.js'

/** How long each mode goes on after its first answer, which is read meanwhile: what it asks for is asked for every second. */
const attackMs = 400
const recoveryMs = 120_000

let setup: AttackedRecorder
let pageUrl: string
let honestMemory: number

const query = async <Row extends Record<string, unknown>>(text: string) =>
  (await setup.created.database.pool.query<Row>(text)).rows

beforeAll(async () => {
  setup = await startAttackedRecorder('hostile', config)
  const { recorder } = setup
  const [, url = ''] = await recorder.printed(/the page is at (http:\/\/[\d.:]+)/)
  pageUrl = url
  await isFresh(['tickers', 'order_books', 'fills'])
  await sleep(5_000)
  honestMemory = await residentBytes(recorder.process.pid)
})

afterAll(async () => setup?.close())

const config = `
collector: { egress: hostile }
streams:
  instruments: { schedule: '*/2 * * * * *', categories: [SPOT, USDT-FUTURES] }
  rpiSymbols: { enabled: false }
  tickers: { schedule: '* * * * * *', categories: [SPOT, USDT-FUTURES] }
  orderBooks: { everySeconds: 1, depth: 5, select: { busiest: 4, categories: [SPOT, USDT-FUTURES] } }
  rpiOrderBooks: { enabled: false }
  fills: { maxPollSeconds: 1, select: { busiest: 4, categories: [SPOT, USDT-FUTURES] } }
  candles: { select: { busiest: 2, categories: [SPOT, USDT-FUTURES] } }
serve: { port: 0 }
`

type Table = 'tickers' | 'order_books' | 'fills'

/** New rows have come since now in each of the tables. */
async function isFresh(tables: readonly Table[]): Promise<void> {
  const since = Date.now()
  await vi.waitFor(
    async () => {
      for (const table of tables) {
        const [row] = await query<{ at: number | null }>(`select max(received_at) as at from market.${table}`)
        expect(row?.at ?? 0, table).toBeGreaterThan(since)
      }
    },
    { timeout: recoveryMs, interval: 100 },
  )
}

const attackedTables: Readonly<Partial<Record<Operation, Table>>> = {
  tickers: 'tickers',
  orderbook: 'order_books',
  fills: 'fills',
}

async function noFalseRow(): Promise<void> {
  const [found] = await query(`
    select
      (select count(*) from market.tickers where last_price = ${evilPrice})::int
      + (select count(*) from market.fills where price = ${evilPrice})::int
      + (select count(*) from market.order_books where ${evilPrice} = any (ask_prices))::int
      + (select count(*) from market.instruments where symbol like 'EVIL%')::int as evil,
      (select count(*) from (
        select ts from market.tickers union all select ts from market.fills union all select ts from market.order_books
        union all select open_time from market.candles union all select valid_from from market.instrument_history
        union all select lower(range) from recorder_page.gap union all select upper(range) from recorder_page.gap
        union all select upper(r) from recorder_page.coverage c cross join lateral unnest(c.ranges) r) as times (at)
        where at > now() + interval '2 minutes' or at < '2010-01-01')::int as impossible`)
  expect(found).toEqual({ evil: 0, impossible: 0 })
}

async function endure(mode: Mode, others: readonly Table[]): Promise<void> {
  const { recorder, service } = setup
  const watch = watchHealth(pageUrl, recorder.process.pid)
  service.attack(mode)
  await vi.waitFor(() => expect(service.attacks).toBeGreaterThan(0), { timeout: recoveryMs, interval: 20 })
  const startedMs = performance.now()
  await isFresh(others)
  await sleep(Math.max(0, attackMs - (performance.now() - startedMs)))
  expect(await watch.stop()).toBeLessThan(longTurnMs())
  expect(await residentBytes(recorder.process.pid)).toBeLessThan(honestMemory + 400_000_000)
}

test('there are enough ways to be hostile', () => {
  expect(new Set([...modes, ...pausingModes].map(({ name }) => name)).size).toBeGreaterThanOrEqual(40)
})

/**
 * Those that begin the list have answers that are successes, those that end it have failures. Ten failures in a row would have
 * the recorder rest for seconds before it asks again: each is followed by one of the others.
 */
function mixed(all: readonly Mode[]): readonly Mode[] {
  const half = Math.ceil(all.length / 2)
  return all.slice(0, half).flatMap((mode, i) => [mode, ...all.slice(half + i, half + i + 1)])
}

describe('the recorder answers, and records what is not attacked', () => {
  test.each(mixed(modes).map((mode) => [mode.name, mode] as const))('%s', async (_name, mode) => {
    const attacked = mode.operation && attackedTables[mode.operation]
    await endure(
      mode,
      (['tickers', 'order_books', 'fills'] as const).filter((table) => table !== attacked),
    )
    await noFalseRow()
  })
})

describe('the recorder answers while it is told to pause', () => {
  test.each(pausingModes.map((mode) => [mode.name, mode] as const))('%s', async (_name, mode) => {
    await endure(mode, [])
    await noFalseRow()
  })
})

test('an honest service is recorded afterwards as if nothing had been', async () => {
  const { recorder, service, created } = setup
  service.attack(null)
  await isFresh(['tickers', 'order_books', 'fills'])
  await noFalseRow()
  const { rows } = await created.database.pool.query<{ bytes: number }>(
    `select pg_total_relation_size('recorder.rejected_row')::int as bytes`,
  )
  expect(rows[0]?.bytes).toBeLessThan(20_000_000)
  expect(recorder.process.exitCode).toBeNull()
  expect(await residentBytes(recorder.process.pid)).toBeLessThan(honestMemory + 400_000_000)
})
