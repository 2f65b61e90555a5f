import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, expect, vi } from 'vitest'
import type { Batch } from '../../src/ledger/batch.js'
import { Incidents } from '../../src/runtime/incidents.js'
import { ledgerOf, Queue } from '../../src/collect/queue/queue.js'
import { type CollectorStats, createStats } from '../../src/collect/streams/stream.js'
import { systemClock } from '../../src/runtime/clock.js'
import { openDatabase, type RecorderDatabase } from '../../src/db/database.js'
import { createTestDatabase, type TestDatabase } from './database.js'
import { batchOf } from './batches.js'
import { aFill } from './marketRows.js'
import { startTcpProxy, type TcpProxy } from './tcpProxy.js'
import { systemDisk } from '../../src/runtime/disk.js'

/** A queue over a database of its own, behind a proxy, with a spool; another one for each test, over the same database. */
export interface QueueUnderTest {
  readonly database: TestDatabase
  readonly proxy: TcpProxy
  /** Folder of the spool. */
  readonly folder: string
  readonly stats: CollectorStats
  /** Lines of the log. */
  readonly lines: string[]
  readonly queue: Queue
  query(text: string, values?: unknown[]): Promise<pg.QueryResult<Record<string, unknown>>>
  /** Puts a file where the folder of the spool was, so that the disk takes nothing more. */
  breakDisk(): Promise<void>
  /** Opens another one over the same spool. */
  openQueue(options?: {
    readonly maxBytes?: number
    readonly url?: string
    readonly onDropped?: (batches: readonly Batch[]) => void
  }): Promise<void>
  closeQueue(withinMs?: number): Promise<void>
  countFills(): Promise<number>
  /** Resolves when so many fills are stored and the spool is empty. */
  isStored(count: number): Promise<void>
  /** Responses go on coming, and none waits for the database. */
  goOn(from: number, to: number): Promise<void>
}

/** For a test file: call it where tests are declared. */
export function queueUnderTest(): QueueUnderTest {
  const own = {} as { -readonly [Name in keyof QueueUnderTest]: QueueUnderTest[Name] }
  let writing: RecorderDatabase
  own.query = (text, values = []) => own.database.database.pool.query<Record<string, unknown>>(text, values)
  own.openQueue = async ({ maxBytes = 100_000_000, url = own.proxy.through(own.database.url), onDropped } = {}) => {
    const logger = pino(
      { base: null },
      { write: (line: string) => own.lines.push((JSON.parse(line) as { msg: string }).msg) },
    )
    const clock = systemClock
    own.stats = createStats()
    writing = openDatabase({
      url,
      poolSize: 8,
      applicationName: 'queue test',
      statementTimeoutMs: 4_000,
      silenceTimeoutMs: 5_000,
    })
    own.queue = await Queue.open(ledgerOf(writing.db), {
      root: own.folder,
      maxBytes,
      clock,
      serviceNow: () => null,
      disk: systemDisk,
      incidents: new Incidents(logger, clock),
      stats: own.stats,
      onDamage: () => own.lines.push('damage'),
      ...(onDropped && { onDropped }),
    })
  }
  own.closeQueue = async (withinMs = 10_000) => {
    await own.queue.close(AbortSignal.timeout(withinMs))
    await writing.close()
  }
  own.countFills = async () => Number((await own.query('select count(*) from market.fills')).rows[0]?.['count'])
  own.isStored = (count) =>
    vi.waitFor(
      async () => {
        expect(await own.countFills()).toBe(count)
        expect(own.queue.backlog()).toMatchObject({ spooledBytes: 0, isSpooling: false })
      },
      { timeout: 120_000, interval: 50 },
    )
  own.breakDisk = async () => {
    await rm(own.folder, { recursive: true, force: true })
    await writeFile(own.folder, '')
  }
  own.goOn = async (from, to) => {
    for (let index = from; index <= to; index++) {
      const started = performance.now()
      await own.queue.write(fills(index))
      // Patience of seconds for the first one, then straight to the disk: nothing waits until the database is back.
      expect(performance.now() - started).toBeLessThan(60_000)
    }
  }
  beforeAll(async () => {
    own.database = await createTestDatabase()
  })
  afterAll(() => own.database.drop())
  beforeEach(async () => {
    own.lines = []
    own.proxy = await startTcpProxy(own.database.url)
    own.folder = await mkdtemp(join(tmpdir(), 'market-recorder-queue-'))
    await own.query('truncate market.fills, market.candles, market.tickers, recorder.ledger, recorder.rejected_row')
    await own.openQueue()
  })
  afterEach(async () => {
    await own.proxy.restore()
    await own.closeQueue()
    await own.proxy.close()
    await rm(own.folder, { recursive: true, force: true })
  })
  return own
}

export const at = 1_760_000_000_000
/** An answer with one new fill, and the one before. */
export const fills = (index: number) =>
  batchOf(
    'fills',
    { category: 'SPOT', symbol: 'BTCUSDT' },
    [index, index - 1].map((id) => aFill({ execId: String(id), ts: at + id * 1_000 })),
    at + index * 1_000,
  )
