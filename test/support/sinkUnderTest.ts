import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, expect, vi } from 'vitest'
import type { Batch } from '../../src/store/batch/batch.js'
import { BatchSpool } from '../../src/collect/sink/batchSpool.js'
import { Incidents } from '../../src/runtime/incidents.js'
import { Sink } from '../../src/collect/sink/sink.js'
import { type CollectorStats, createStats } from '../../src/collect/streamStats.js'
import type { StreamName } from '../../src/market/stream.js'
import { systemClock } from '../../src/runtime/clock.js'
import { openDatabase, type RecorderDatabase } from '../../src/store/db/database.js'
import { createTestDatabase, type TestDatabase } from './database.js'
import { aFill } from './marketRows.js'
import { startTcpProxy, type TcpProxy } from './tcpProxy.js'

export let database: TestDatabase
export let proxy: TcpProxy
export let folder: string
export let stats: CollectorStats
export let lines: string[]
let writing: RecorderDatabase
export let sink: Sink

export const query = (text: string, values: unknown[] = []) =>
  database.database.pool.query<Record<string, unknown>>(text, values)

export async function openSink(options: { maxBytes?: number; url?: string } = {}): Promise<void> {
  const { maxBytes = 100_000_000, url = proxy.through(database.url) } = options
  const logger = pino(
    { base: null },
    { write: (line: string) => lines.push((JSON.parse(line) as { msg: string }).msg) },
  )
  const clock = systemClock
  stats = createStats()
  writing = openDatabase({
    url,
    poolSize: 8,
    applicationName: 'sink test',
    statementTimeoutMs: 4_000,
    silenceTimeoutMs: 5_000,
  })
  const spool = await BatchSpool.open({ root: folder, maxBytes, onDamage: () => lines.push('damage') })
  const incidents = new Incidents(logger, clock)
  sink = new Sink(writing.db, { maxInFlightWrites: 4, clock, incidents, stats, spool })
}

export async function closeSink(withinMs = 10_000): Promise<void> {
  await sink.close(AbortSignal.timeout(withinMs))
  await writing.close()
}

beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())
beforeEach(async () => {
  lines = []
  proxy = await startTcpProxy(database.url)
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-sink-'))
  await query(
    'truncate market.fills, market.candles, market.tickers, recorder.gap, recorder.coverage, recorder.rejected_row',
  )
  await openSink()
})
afterEach(async () => {
  await proxy.restore()
  await closeSink()
  await proxy.close()
  await rm(folder, { recursive: true, force: true })
})

export const at = 1_760_000_000_000
export function batchOf(stream: StreamName, target: unknown, rows: readonly unknown[], requestTime: number): Batch {
  const nothing = { rejected: [], proven: [], gaps: [], isPart: false }
  return { stream, target, requestTime, receivedAt: requestTime, rows, ...nothing }
}
/** An answer with one new fill, and the one before. */
export const fills = (index: number) =>
  batchOf(
    'fills',
    { category: 'SPOT', symbol: 'BTCUSDT' },
    [index, index - 1].map((id) => aFill({ execId: String(id), ts: at + id * 1_000 })),
    at + index * 1_000,
  )
export const countFills = async () => Number((await query('select count(*) from market.fills')).rows[0]?.['count'])
export const isStored = (count: number) =>
  vi.waitFor(
    async () => {
      expect(await countFills()).toBe(count)
      expect(sink.backlog()).toMatchObject({ spooledBytes: 0, isSpooling: false })
    },
    { timeout: 20_000, interval: 50 },
  )

/** Answers go on coming, and none waits for the database. */
export async function goOn(from: number, to: number): Promise<void> {
  for (let index = from; index <= to; index++) {
    const started = performance.now()
    await sink.write(fills(index))
    // Patience for the first one, then straight to the disk.
    expect(performance.now() - started).toBeLessThan(4_000)
  }
}
