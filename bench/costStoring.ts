import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { Queue } from '../src/collect/queue/queue.js'
import { createStats } from '../src/collect/streams/stream.js'
import { systemClock as clock } from '../src/runtime/clock.js'
import { Incidents } from '../src/runtime/incidents.js'
import type { Batch } from '../src/ledger/batch.js'
import { storeBatch, storeBatches } from '../src/ledger/storeBatches.js'
import { openDatabase, type RecorderDatabase } from '../src/db/database.js'
import { migrateToLatest } from '../src/db/migrate.js'
import { startEmbeddedPostgres } from '../src/server/embedded/embedded.js'
import { fillPage } from './costRows.js'
import { type Check, median } from './figures.js'
import { systemDisk } from '../src/runtime/disk.js'

const instrumentCount = 200
const pagesPerInstrument = 30
const parallel = 4
const logger = pino({ level: 'silent' })

/**
 * Pages of 100 fills, half of each known from the page before, of many instruments that come at once: each stored in a
 * transaction of its own, and through the queue, which puts those together that wait.
 */
export async function measureStoring(rounds: number): Promise<Check[]> {
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-bench-storing-'))
  const server = await startEmbeddedPostgres({ dataDir: join(folder, 'postgres') })
  const database = openDatabase({ url: server.url, poolSize: parallel * 2 })
  try {
    await migrateToLatest(database)
    const ratios: number[] = []
    for (let round = 0; round < rounds; round++) {
      const singly = await pagesPerSecond(`A${round}`, (pages) => storeAlone(database, pages))
      const together = await withQueue(database, folder, (store) => pagesPerSecond(`B${round}`, store))
      console.log(`pages of 100 fills a second: alone ${singly.toFixed(0)}, through the queue ${together.toFixed(0)}`)
      ratios.push(together / singly)
    }
    const ratio = median(ratios)
    const what = 'pages of 100 fills a second, through the queue and each alone'
    return [{ what, measured: ratio.toFixed(2), target: '>= 1.5', isMet: ratio >= 1.5 }]
  } finally {
    await database.close()
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

async function pagesPerSecond(name: string, store: (pages: readonly Batch[]) => Promise<void>): Promise<number> {
  const rounds = Array.from({ length: pagesPerInstrument }, (_, page) =>
    Array.from({ length: instrumentCount }, (_each, index) => fillPage(`${name}N${index}USDT`, page, someTime)),
  )
  const startedMs = performance.now()
  for (const pages of rounds) await store(pages)
  return ((pagesPerInstrument * instrumentCount) / (performance.now() - startedMs)) * 1000
}

const someTime = Date.UTC(2026, 0, 15, 12)

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
  const queue = await Queue.open((batches) => storeBatches(db, batches), {
    root: join(folder, 'spool'),
    maxBytes: 1e9,
    clock,
    disk: systemDisk,
    incidents: new Incidents(logger, clock),
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
