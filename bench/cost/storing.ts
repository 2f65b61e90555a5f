import { join } from 'node:path'
import { pino } from 'pino'
import { ledgerOf, Queue } from '../../src/collect/queue/queue.js'
import { createStats } from '../../src/collect/streams/stream.js'
import type { RecorderDatabase } from '../../src/db/database.js'
import type { Batch } from '../../src/ledger/batch.js'
import { storeBatch } from '../../src/ledger/storeBatches.js'
import { minuteMs } from '../../src/market/values.js'
import { systemClock as clock } from '../../src/runtime/clock.js'
import { systemDisk } from '../../src/runtime/disk.js'
import { Incidents } from '../../src/runtime/incidents.js'
import { atLeast, type Check, check, median } from '../tools/checks.js'
import { withDatabase } from '../tools/database.js'
import { fillPage } from './rows.js'
import { addCoverage } from '../../test/support/coverage.js'

const someTime = Date.UTC(2026, 0, 15, 12)
const instrumentCount = 200
const pagesPerInstrument = 30
const parallel = 4

/**
 * Pages of 100 fills of many instruments that come at once, half of each known from the page before. Each is stored in
 * a transaction of its own, and through the queue, which stores together what waits.
 */
export async function measureStoring(rounds: number): Promise<Check[]> {
  return withDatabase(
    async ({ database, folder }) => {
      const ratios: number[] = []
      for (let round = 0; round < rounds; round++) {
        const singly = await pagesPerSecond(`A${round}`, (pages) => storeAlone(database, pages))
        const together = await withQueue(database, folder, (store) => pagesPerSecond(`B${round}`, store))
        console.log(`pages of 100 fills a second: alone ${singly.toFixed(0)}, through the queue ${together.toFixed(0)}`)
        ratios.push(together / singly)
      }
      return [atLeast('pages of 100 fills a second, through the queue and each alone', median(ratios), 1.5)]
    },
    { poolSize: parallel * 2 },
  )
}

async function pagesPerSecond(name: string, store: (pages: readonly Batch[]) => Promise<void>): Promise<number> {
  const rounds = Array.from({ length: pagesPerInstrument }, (_, page) =>
    Array.from({ length: instrumentCount }, (_each, index) => fillPage(`${name}N${index}USDT`, page, someTime)),
  )
  const startedMs = performance.now()
  for (const pages of rounds) await store(pages)
  return ((pagesPerInstrument * instrumentCount) / (performance.now() - startedMs)) * 1000
}

async function storeAlone({ db }: RecorderDatabase, pages: readonly Batch[]): Promise<void> {
  const waiting = [...pages]
  const work = async () => {
    for (let page = waiting.shift(); page !== undefined; page = waiting.shift()) await storeBatch(db, page)
  }
  await Promise.all(Array.from({ length: parallel }, work))
}

/** One queue for all pages, as in a daemon. */
async function withQueue<Result>(
  { db }: RecorderDatabase,
  folder: string,
  work: (store: (pages: readonly Batch[]) => Promise<void>) => Promise<Result>,
): Promise<Result> {
  const queue = await Queue.open(ledgerOf(db), {
    root: join(folder, 'spool'),
    maxBytes: 1e9,
    clock,
    serviceNow: () => null,
    disk: systemDisk,
    incidents: new Incidents(pino({ level: 'silent' }), clock),
    stats: createStats(),
    onDamage: () => undefined,
  })
  const result = await work(async (pages) => {
    await Promise.all(pages.map((page) => queue.write(page)))
    if (queue.backlog().isSpooling)
      throw new Error('the database did not keep up; the figure would be that of the disk')
  })
  await queue.close(AbortSignal.timeout(10_000))
  return result
}

/** A gap each minute for four weeks. */
const gapCount = 40_000
/** Number of ranges that one claim covers while the gaps are made. */
const rangesPerClaim = 128
const measuredPages = 60

/** Compares the cost of storing a page of fills behind tens of thousands of gaps with that of one without gaps. */
export async function measureGaps(): Promise<Check[]> {
  return withDatabase(
    async ({ database }) => {
      for (let gap = 0; gap < gapCount; gap += rangesPerClaim) await claim(database, 'GAPSUSDT', gap)
      const without = await costOfPages(database, 'WHOLEUSDT')
      const withGaps = await costOfPages(database, 'GAPSUSDT')
      const times = withGaps.ms / without.ms
      const text = ({ ms, walBytes }: Cost) => `${ms.toFixed(1)} ms and ${(walBytes / 1024).toFixed(1)} KiB of WAL`
      const measured = `${text(withGaps)}, beside ${text(without)}: ${times.toFixed(2)} times`
      const what = `a page of 100 fills of an instrument with ${gapCount} gaps, beside one without`
      return [check(what, measured, '≤ 2 times', times <= 2)]
    },
    // Nothing but the measured statements may write.
    { poolSize: 2, settings: { autovacuum: 'off' } },
  )
}

async function claim({ db }: RecorderDatabase, symbol: string, first: number): Promise<void> {
  const ranges = Array.from({ length: rangesPerClaim }, (_, index) => {
    const from = someTime - (gapCount + rangesPerClaim - first - index) * minuteMs
    return { from, to: from + minuteMs - 1_000 }
  })
  await addCoverage(db, { stream: 'fills', category: 'SPOT', symbol, type: '', interval: '' }, ranges)
}

interface Cost {
  /** Median of the pages. */
  readonly ms: number
  /** Mean of the pages. */
  readonly walBytes: number
}

/** Every second page follows on, every other one leaves a gap before it. */
async function costOfPages({ db, pool }: RecorderDatabase, symbol: string): Promise<Cost> {
  const times: number[] = []
  const wal = async () =>
    (await pool.query<{ at: number }>(`select (pg_current_wal_insert_lsn() - '0/0')::float8 as at`)).rows[0]?.at ?? 0
  await storeBatch(db, fillPage(symbol, 0, someTime))
  const before = await wal()
  for (let page = 1, number = 1; page <= measuredPages; page++, number += page % 2 === 0 ? 1 : 3) {
    const startedMs = performance.now()
    await storeBatch(db, fillPage(symbol, number, someTime))
    times.push(performance.now() - startedMs)
  }
  return { ms: median(times), walBytes: ((await wal()) - before) / measuredPages }
}
