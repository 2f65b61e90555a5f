import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Batch } from '../../../src/collect/batch.js'
import { BatchSpool } from '../../../src/collect/batchSpool.js'
import { Incidents } from '../../../src/collect/incidents.js'
import { Sink } from '../../../src/collect/sink.js'
import { type CollectorStats, createStats } from '../../../src/collect/streamStats.js'
import type { StreamName } from '../../../src/market/stream.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { openDatabase, type RecorderDatabase } from '../../../src/store/database.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aCandle, aFill, aTicker } from '../../support/marketRows.js'
import { startTcpProxy, type TcpProxy } from '../../support/tcpProxy.js'

let database: TestDatabase
let proxy: TcpProxy
let folder: string
let stats: CollectorStats
let lines: string[]
let writing: RecorderDatabase
let sink: Sink

const query = (text: string, values: unknown[] = []) =>
  database.database.pool.query<Record<string, unknown>>(text, values)

async function openSink(options: { maxBytes?: number; url?: string } = {}): Promise<void> {
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

async function closeSink(withinMs = 10_000): Promise<void> {
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

const at = 1_760_000_000_000
function batchOf(stream: StreamName, target: unknown, rows: readonly unknown[], requestTime: number): Batch {
  const nothing = { rejected: [], proven: [], gaps: [], isPart: false }
  return { stream, target, requestTime, receivedAt: requestTime, rows, ...nothing }
}
/** An answer with one new fill, and the one before. */
const fills = (index: number) =>
  batchOf(
    'fills',
    { category: 'SPOT', symbol: 'BTCUSDT' },
    [index, index - 1].map((id) => aFill({ execId: String(id), ts: at + id * 1_000 })),
    at + index * 1_000,
  )
const countFills = async () => Number((await query('select count(*) from market.fills')).rows[0]?.['count'])
const isStored = (count: number) =>
  vi.waitFor(
    async () => {
      expect(await countFills()).toBe(count)
      expect(sink.backlog()).toMatchObject({ spooledBytes: 0, isSpooling: false })
    },
    { timeout: 20_000, interval: 50 },
  )

/** Answers go on coming, and none waits for the database. */
async function goOn(from: number, to: number): Promise<void> {
  for (let index = from; index <= to; index++) {
    const started = performance.now()
    await sink.write(fills(index))
    // Patience for the first one, then straight to the disk.
    expect(performance.now() - started).toBeLessThan(4_000)
  }
}

describe('a database that works', () => {
  test('has the rows when the write is done', async () => {
    await goOn(1, 3)
    expect(await countFills()).toBe(4)
    expect(sink.backlog()).toMatchObject({ batches: 0, spooledBytes: 0, isSpooling: false })
  })
})

describe('a database that does not take rows: nothing waits, and all is there when it is back', () => {
  const check = async (fail: () => Promise<unknown>, mend: () => Promise<unknown>) => {
    await goOn(1, 2)
    await fail()
    await goOn(3, 20)
    expect(sink.backlog()).toMatchObject({ isSpooling: true })
    expect(sink.backlog().spooledBytes).toBeGreaterThan(0)
    await mend()
    await isStored(21)
    expect(stats.fills.rowsDropped).toBe(0)
    expect((await query('select * from recorder.gap')).rows).toEqual([])
    expect((await query('select * from recorder.rejected_row')).rows).toEqual([])
    // One line when it began: not one for each answer.
    expect(lines.filter((line) => line.startsWith('database')).length).toBeLessThanOrEqual(2)
  }

  test('stopped or failing over: connections are cut and refused', () =>
    check(
      () => proxy.refuse(),
      () => proxy.restore(),
    ))

  test('silent: no answer, and no end of the connection either', () =>
    check(
      () => Promise.resolve(proxy.stall()),
      async () => {
        proxy.cut()
        await proxy.restore()
      },
    ))

  test('too many connections', async () => {
    await query(`create role limited login password 'limited' in role recorder_writer`)
    const url = new URL(database.url)
    url.username = 'limited'
    url.password = 'limited'
    await closeSink()
    await openSink({ url: url.href })
    try {
      await check(
        async () => {
          await query('alter role limited connection limit 0')
          await query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'limited'`)
        },
        () => query('alter role limited connection limit -1'),
      )
    } finally {
      await closeSink()
      await query('drop role limited')
      await openSink()
    }
  })

  test('read-only', async () => {
    const name = new URL(database.url).pathname.slice(1)
    const end = () =>
      query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sink test'`)
    await check(
      async () => {
        await query(`alter database ${name} set default_transaction_read_only = on`)
        await end()
      },
      async () => {
        await query(`alter database ${name} reset default_transaction_read_only`)
        await end()
      },
    )
  })

  test('disk full', async () => {
    await query(`create function disk_full() returns trigger language plpgsql as
      $$ begin raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$`)
    await check(
      () => query('create trigger disk_full before insert on market.fills execute function disk_full()'),
      () => query('drop function disk_full() cascade'),
    )
  })

  test('locked for longer than a write may wait', async () => {
    const holder = await database.database.pool.connect()
    await check(
      async () => {
        await holder.query('begin')
        await holder.query('lock table market.fills in access exclusive mode')
      },
      async () => {
        await holder.query('rollback')
        holder.release()
      },
    )
  })

  test('being migrated or restored by another process: the table is not there', () =>
    check(
      () => query('alter table market.fills rename to fills_away'),
      () => query('alter table market.fills_away rename to fills'),
    ))

  test('a session ended in the middle of a transaction', async () => {
    const holder = await database.database.pool.connect()
    await holder.query('begin')
    await holder.query('lock table market.fills in access exclusive mode')
    const written = sink.write(fills(1))
    await vi.waitFor(async () => {
      const { rows } = await query(
        `select pid from pg_stat_activity where application_name = 'sink test' and wait_event_type = 'Lock'`,
      )
      expect(rows).toHaveLength(1)
    })
    await query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sink test'`)
    await written
    await holder.query('rollback')
    holder.release()
    await isStored(2)
  })
})

describe('what cannot be stored for good', () => {
  test('is kept as rejected rows and holds nothing up', async () => {
    const broken = { ...fills(1), rows: [{ ...aFill(), price: { no: 'price' } }, null] }
    await sink.write(broken)
    await goOn(2, 3)
    expect(await countFills()).toBe(3)
    expect((await query('select raw from recorder.rejected_row')).rows.length).toBeGreaterThan(0)
  })
})

describe('the spool', () => {
  test('left by a recorder that ended is stored by the next one, before what comes then', async () => {
    await goOn(1, 2)
    await proxy.refuse()
    await goOn(3, 10)
    await closeSink()
    await proxy.restore()
    await openSink()
    expect(sink.backlog().isSpooling).toBe(true)
    await goOn(11, 12)
    await isStored(13)
    expect((await query('select * from recorder.gap')).rows).toEqual([])
  })

  test('full: what can be fetched again goes first, every drop is counted, and becomes a gap', async () => {
    await closeSink()
    await openSink({ maxBytes: 60_000 })
    await proxy.refuse()
    const noise = (index: number) =>
      Array.from({ length: 40 }, (_, i) => String(Math.abs(Math.sin(index * 100 + i))).replaceAll(/\D/g, '')).join('')
    const candles = (index: number) =>
      batchOf(
        'candles',
        { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' },
        [aCandle({ openTime: at - (at % 60_000) + index * 60_000, isClosed: true, open: `0.${noise(index)}` })],
        at + index * 60_000,
      )
    const tickers = (index: number) =>
      batchOf(
        'tickers',
        { category: 'SPOT' },
        [aTicker({ ts: at + index * 1_000, lastPrice: `0.${noise(index)}` })],
        at + index * 1_000,
      )
    for (let index = 0; index < 60; index++) await sink.write(candles(index))
    for (let index = 0; index < 60; index++) await sink.write(tickers(index))
    expect(stats.candles.rowsDropped).toBeGreaterThan(0)
    expect(stats.tickers.rowsDropped).toBe(0)
    for (let index = 60; index < 300; index++) await sink.write(tickers(index))
    const { candles: c, tickers: t } = { candles: stats.candles.rowsDropped, tickers: stats.tickers.rowsDropped }
    expect(c).toBe(60)
    expect(t).toBeGreaterThan(0)
    expect(sink.backlog().spooledBytes).toBeLessThan(80_000)
    await proxy.restore()
    await vi.waitFor(() => expect(sink.backlog()).toMatchObject({ spooledBytes: 0, isSpooling: false }), {
      timeout: 20_000,
    })
    const { rows: kept } = await query('select extract(epoch from ts) * 1000 as ts from market.tickers')
    expect(kept).toHaveLength(300 - t)
    const { rows: gaps } = await query(
      `select stream, symbol, state, extract(epoch from lower(range)) * 1000 as "from", extract(epoch from upper(range)) * 1000 as "to"
       from recorder.gap order by 1, 4`,
    )
    const inGap = (stream: string, ts: number) =>
      gaps.some((gap) => gap['stream'] === stream && Number(gap['from']) <= ts && ts < Number(gap['to']))
    const keptAt = new Set(kept.map(({ ts }) => Number(ts)))
    for (let index = 0; index < 300; index++)
      expect(inGap('tickers', at + index * 1_000)).toBe(!keptAt.has(at + index * 1_000))
    for (let index = 0; index < 60; index++) expect(inGap('candles', at + index * 60_000)).toBe(true)
    expect(gaps.filter(({ stream }) => stream === 'candles').every(({ state }) => state === 'open')).toBe(true)
    expect(
      gaps
        .filter(({ stream }) => stream === 'tickers')
        .every(({ symbol, state }) => symbol === '*' && state === 'lost'),
    ).toBe(true)
  })

  test('on a disk that takes nothing: what neither disk nor database takes is counted and noted, and it goes on', async () => {
    await goOn(1, 2)
    await proxy.refuse()
    await rm(folder, { recursive: true, force: true })
    const tickers = (index: number) =>
      batchOf('tickers', { category: 'SPOT' }, [aTicker({ ts: at + index * 1_000 })], at + index * 1_000)
    for (let index = 1; index <= 3; index++) await sink.write(tickers(index))
    expect(stats.tickers.rowsDropped).toBe(3)
    expect(lines.some((line) => line.startsWith('spool: ENOENT'))).toBe(true)
    await proxy.restore()
    await vi.waitFor(
      async () => {
        await sink.write(tickers(4))
        expect(sink.backlog().isSpooling).toBe(false)
        expect((await query('select * from market.tickers')).rows).toHaveLength(1)
        const { rows } = await query(
          `select extract(epoch from lower(range)) * 1000 as "from" from recorder.gap order by 1`,
        )
        expect(rows.map(({ from }) => Number(from))).toEqual([1, 2, 3].map((index) => at + index * 1_000))
      },
      { timeout: 10_000 },
    )
  })

  test('fills that were dropped leave a gap exactly where the next answer does not follow on', async () => {
    await goOn(1, 2)
    // Two answers of which the second does not follow on: what was between them had been dropped.
    const full = (newest: number) =>
      batchOf(
        'fills',
        { category: 'SPOT', symbol: 'BTCUSDT' },
        Array.from({ length: 100 }, (_, i) => aFill({ execId: String(newest - i), ts: at + (newest - i) * 1_000 })),
        at + newest * 1_000,
      )
    await sink.write(full(90))
    await sink.write(full(500))
    const { rows } = await query(
      `select extract(epoch from lower(range)) * 1000 as "from", extract(epoch from upper(range)) * 1000 as "to" from recorder.gap`,
    )
    expect(rows.map(({ from, to }) => [Number(from), Number(to)])).toEqual([[at + 90_000, at + 401_001]])
    // The one in between comes late, out of another recorder's spool.
    await sink.write(full(180))
    await sink.write(full(270))
    await sink.write(full(360))
    await sink.write(full(430))
    const left = await query(`select state from recorder.gap where state <> 'repaired'`)
    expect(left.rows).toEqual([])
  })
})
