import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { BackfillRequest } from '../../../src/history/request.js'
import { reviewOnce } from '../../../src/history/review.js'
import { verify } from '../../../src/ledger/verify.js'
import type { CandleSeries, Interval } from '../../../src/market/candle.js'
import type { Quirks } from '../../../src/simulator/world/quirks.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { candleStream } from '../../../src/db/series.js'
import { addEmptyRanges } from '../../../src/ledger/missing.js'
import { countOpenWants } from '../../../src/ledger/wants.js'
import { listGaps } from '../../../src/ledger/gaps.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { listInstruments } from '../../../src/ledger/read/instruments.js'
import { clientOf, runBackfill, startWorker, storedCandles, trueCandles } from '../../support/backfill.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { addCoverage } from '../../support/coverage.js'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
const now = Date.UTC(2026, 5, 15, 12, 34, 56)
const launch = now - 100 * dayMs

let test: TestDatabase
let simulator: Simulator | undefined
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
beforeEach(async () => {
  await test.database.pool.query(
    `truncate market.candles, market.instruments, market.instrument_history, recorder.ledger, recorder.candle_revision, recorder.restatement,
     recorder.want cascade`,
  )
})
afterEach(async () => {
  await simulator?.close()
  simulator = undefined
})

async function startService(clock: { now: number }, quirks: Partial<Quirks> = {}): Promise<Simulator> {
  simulator = await startSimulator({
    now: () => clock.now,
    limits: { enforce: false },
    quirks: { zeroByteCandlesAfterListingMs: 0, candleDepthDays: { '1m': 2 }, ...quirks },
    customInstruments: [{ category: 'SPOT', symbol: 'RSTOCKUSDT', launchTime: launch, fillsPerHour: 240 }],
  })
  return simulator
}

function series(interval: Interval): CandleSeries {
  return { category: 'SPOT', symbol: 'RSTOCKUSDT', type: 'market', interval }
}

function request(interval: Interval, from: number): BackfillRequest {
  const what = { categories: ['SPOT'], symbols: ['RSTOCKUSDT'], types: ['market'], intervals: [interval] } as const
  return { stream: 'candles', ...what, from, to: now }
}

/** The service's list of instruments as it is now, stored. */
async function storeInstruments(service: Simulator, at: number): Promise<void> {
  const client = clientOf(service.url, 100)
  const page = await client.instruments({ category: 'SPOT' })
  client.close()
  await recordInstruments(test.database.db, 'SPOT', page.rows, at, { complete: true })
}

/** Looks for what is due, and works until nothing is wanted any more. */
async function review(service: Simulator, { at }: { readonly at: number }): Promise<void> {
  const { db } = test.database
  const client = clientOf(service.url, 100)
  const worker = startWorker(test, client)
  try {
    await reviewOnce(db, Math.max(at, Date.now() + dayMs))
    await expect.poll(() => countOpenWants(db, 'review')).toBe(0)
  } finally {
    await worker.stop()
    client.close()
  }
}

async function rows<Row extends object>(text: string): Promise<Row[]> {
  return (await test.database.pool.query<Row>(text)).rows
}

describe('looking at the past again', () => {
  it('finds the rows that were hidden at first, and confirms the silence that is still there', async () => {
    const clock = { now }
    const hidden = { from: now - 10 * hourMs, to: now - 9.5 * hourMs, until: now + hourMs }
    const silent = { from: now - 5 * hourMs, to: now - 4 * hourMs }
    const service = await startService(clock, { hiddenCandles: [hidden, silent] })
    await runBackfill(test, service, request('1m', now - dayMs), { serviceNow: now })
    expect(await rows('select count(*) from market.no_trade where not is_confirmed')).toEqual([{ count: 2 }])
    expect(await listGaps(test.database.db)).toEqual([])

    clock.now = now + dayMs
    await review(service, { at: clock.now })
    const shown = trueCandles(service, series('1m'), { from: now - dayMs, to: now }, now).filter(
      ([time]) => Number(time) < silent.from || Number(time) >= silent.to,
    )
    const stored = (await storedCandles(test, series('1m'))).filter(([time]) => Number(time) >= now - dayMs)
    expect(stored.filter(([time]) => Number(time) < now - minuteMs)).toEqual(
      shown.filter(([time]) => Number(time) < now - minuteMs),
    )
    expect(await rows('select is_confirmed, count(*) from market.no_trade group by 1')).toEqual([
      { is_confirmed: true, count: 1 },
    ])
    expect(
      await rows(
        "select (sum(extract(epoch from to_time - from_time)) / 60)::bigint as sum from market.gaps where state = 'repaired'",
      ),
    ).toEqual([{ sum: 30 }])
    expect(await listGaps(test.database.db)).toMatchObject([
      { state: 'repaired', reason: expect.stringContaining('left these candles out at first') as string },
    ])
    for await (const { disagreements } of verify(test.database.db, () => true)) expect(disagreements).toEqual([])
  })

  it('asks for no silence of an instrument that has left the list, and not at once for what was refused', async () => {
    const { db } = test.database
    const service = await startService({ now })
    await storeInstruments(service, now)
    const longAgo = new Date(now - 5 * dayMs)
    await test.database.pool.query(
      `insert into recorder.ledger (stream, category, symbol, type, interval, verdict, part, ranges, noted_at)
       select 'candles', 'SPOT', symbol, 'market', '1m', verdict, $1, tstzmultirange(tstzrange($1::timestamptz, $1::timestamptz + interval '1 hour')), $1
       from unnest(array['RSTOCKUSDT', 'NOSUCHUSDT']) as symbol, unnest(array['silent', 'unanswered']) as verdict`,
      [longAgo],
    )
    await db
      .updateTable('market.instruments')
      .set({ disappeared_at: new Date(now) })
      .execute()
    const client = clientOf(service.url, 100)
    const worker = startWorker(test, client, { serviceNow: () => now })
    try {
      expect(await reviewOnce(db, now)).toHaveLength(2)
      await expect.poll(() => countOpenWants(db, 'review')).toBe(0)
    } finally {
      await worker.stop()
      client.close()
    }
    const refused = { symbol: 'NOSUCHUSDT', failure: expect.any(String) as string }
    expect(await rows('select symbol, failure from recorder.want')).toEqual([refused, refused])
    expect(await reviewOnce(db, now + 10 * minuteMs)).toEqual([])
    expect(await reviewOnce(db, now + 25 * hourMs)).toHaveLength(1)
  })

  it('reads the newest minutes again every twelve hours, because late trades change them', async () => {
    const { db } = test.database
    const service = await startService({ now })
    await storeInstruments(service, now)
    await runBackfill(test, service, request('1m', now - dayMs), { serviceNow: now })
    const end = Math.floor(now / minuteMs) * minuteMs
    const wanted = async (at: number) => {
      await test.database.pool.query('truncate recorder.want cascade')
      return reread(at)
    }
    const reread = async (at: number) => {
      await reviewOnce(db, at)
      return rows<{ minutes: number; until: number }>(
        `select extract(epoch from upper(ranges) - lower(ranges)) / 60 as minutes, upper(ranges) as until
          from recorder.want where kind = 'review' and ended_at is null`,
      )
    }
    const [first] = await wanted(now)
    expect(Number(first?.minutes)).toBe(1_000)
    expect(end - Number(first?.until)).toBeLessThanOrEqual(minuteMs)
    await test.database.pool.query('update recorder.want set ended_at = now()')
    expect(await reread(now + hourMs / 2)).toEqual([])
    // Nothing is read again that is not recorded any more.
    expect(await reread(now + 13 * hourMs)).toEqual([])
    await addCoverage(db, candleStream(series('1m')), [{ from: end - hourMs, to: end + 13 * hourMs }])
    expect(await reread(now + 13 * hourMs)).toMatchObject([{ until: end + 13 * hourMs }])
  })

  it('sees a split: one restatement, stored values are the new truth, old ones are kept as revisions', async () => {
    const clock = { now }
    const service = await startService(clock)
    await storeInstruments(service, now)
    await runBackfill(test, service, request('1D', launch), { serviceNow: now })
    await runBackfill(test, service, request('1H', now - 60 * dayMs), { serviceNow: now })
    const before = await storedCandles(test, series('1D'))
    const hoursBefore = await storedCandles(test, series('1H'))
    service.control.split('SPOT', 'RSTOCKUSDT', 4, now + hourMs)
    clock.now = now + 2 * dayMs
    await review(service, { at: clock.now })

    for (const [interval, old] of [
      ['1D', before],
      ['1H', hoursBefore],
    ] as const) {
      const stored = await storedCandles(test, series(interval))
      const last = Number(old.at(-1)?.[0])
      const truth = trueCandles(service, series(interval), { from: Number(old[0]?.[0]), to: last + 1 }, clock.now)
      expect(stored.filter(([time]) => Number(time) <= last)).toEqual(truth)
      expect(truth).not.toEqual(old)
    }
    const restated = await rows(
      `select symbol, stream, type, interval, factor::text, candles,
         (select count(*) from recorder.candle_revision v where v.is_restatement and v.interval = r.interval) as kept
       from market.restatements r order by interval`,
    )
    const event = { symbol: 'RSTOCKUSDT', stream: 'candles', type: 'market', factor: '0.25000000000000000000' }
    expect(restated).toEqual([
      { ...event, interval: '1H', candles: hoursBefore.length, kept: hoursBefore.length },
      { ...event, interval: '1D', candles: before.length, kept: before.length },
    ])
    const kept = await rows<{ close: string }>(
      `select old_close::text as close from recorder.candle_revision where interval = '1D' order by open_time`,
    )
    expect(kept.map(({ close }) => Number(close))).toEqual(before.map(([, , , , close]) => Number(close)))
    expect(await rows(`select count(*) from recorder.candle_revision where not is_restatement`)).toEqual([{ count: 0 }])
  })

  it('keeps both listings of an instrument apart, and asks anew what the old one did not have', async () => {
    const clock = { now }
    const service = await startService(clock)
    await storeInstruments(service, now)
    const { db } = test.database
    await addEmptyRanges(db, series('1D'), [{ from: launch - 400 * dayMs, to: launch }])
    service.control.split('SPOT', 'RSTOCKUSDT', 2, now + hourMs, true)
    clock.now = now + 2 * hourMs
    await storeInstruments(service, clock.now)
    const versions = await rows(
      `select (extract(epoch from launch_time) * 1000)::bigint as launched, valid_to is null as is_open
       from market.instrument_history where symbol = 'RSTOCKUSDT' order by valid_from`,
    )
    expect(versions).toMatchObject([{ launched: launch, is_open: false }, { is_open: true }])
    expect(await rows("select from recorder.ledger where verdict = 'before the beginning'")).toEqual([])
    const [instrument] = (await listInstruments(db)).filter(({ symbol }) => symbol === 'RSTOCKUSDT')
    expect(instrument?.firstLaunchTime).toBe(launch)
    expect(instrument?.launchTime).toBeGreaterThan(now)
  })
})
