import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { absenceWaitsMs, OperationStates } from '../../../src/history/reach.js'
import { fillReachMs, fillRefusals } from '../../../src/history/fillsWalk.js'
import { FillRepair } from '../../../src/history/repairs.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { storeCandles } from '../../../src/ledger/storeCandles.js'
import { listGaps, loseGaps, recordGap } from '../../../src/ledger/gaps.js'
import type { TradedCategory } from '../../../src/market/category.js'
import { dayMs, hourMs, minuteMs } from '../../../src/market/values.js'
import { Incidents } from '../../../src/runtime/incidents.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import type { Quirks } from '../../../src/simulator/world/quirks.js'
import { clientOf, repairInVain, startWorker, wantedRanges } from '../../support/backfill.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { insertFills } from '../../support/insertFills.js'
import { aCandle, aFill } from '../../support/marketRows.js'
import { addCoverage } from '../../support/coverage.js'

const now = Date.UTC(2026, 10, 20)
const symbol = 'BTCUSDT'

let test: TestDatabase
let simulator: Simulator | undefined
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())
const tables = 'market.fills, market.candles, recorder.ledger, recorder.want, recorder.slice'
beforeEach(() => test.database.pool.query(`truncate ${tables}`))
afterEach(() => simulator?.close())

async function startService(quirks: Partial<Quirks> = {}): Promise<Simulator> {
  simulator = await startSimulator({ scale: 'tiny', now: () => now, limits: { enforce: false }, quirks })
  return simulator
}

/** Records the fills of five minutes before and after a gap of this length. */
async function recordAround({ world }: Simulator, gapMs: number, category: TradedCategory = 'USDT-FUTURES') {
  const { db } = test.database
  const [begin, end] = [now - 11 * hourMs, now - 11 * hourMs + gapMs]
  const truth = world.fills(category, symbol, begin - 5 * minuteMs, end + 5 * minuteMs)
  const stored = truth.filter(({ ts }) => Number(ts) < begin || Number(ts) >= end)
  const fills = stored.map(({ execId, execLinkId = null, price, size, side, ts }) => {
    const key = { category, symbol, execId, execLinkId, price, size, side, ts: Number(ts) }
    return { ...key, isRpi: null, receivedAt: Number(ts), extra: {} }
  })
  await insertFills(db, fills)
  const times = fills.map(({ ts }) => ts)
  const last = Math.max(...times.filter((ts) => ts < begin))
  const next = Math.min(...times.filter((ts) => ts >= end))
  const series = { stream: 'fills', category, symbol, type: '', interval: '' } as const
  const gap = { from: last, to: next + 1 }
  await recordGap(db, { ...series, range: gap, reason: 'away', detectedAt: now - hourMs })
  await addCoverage(db, series, [{ from: (times[0] ?? 0) + 1, to: gap.from }])
  await addCoverage(db, series, [{ from: gap.to, to: Math.max(...times) }])
  return { truth, gap, series }
}

/** Has gaps wanted and fetched, as the recorder does. */
async function repair(
  service: Simulator,
  { at = now, ...more }: Partial<ConstructorParameters<typeof FillRepair>[0]> & { readonly at?: number } = {},
  incidents = new Incidents(createLogger('silent'), systemClock),
): Promise<void> {
  const { db, pool } = test.database
  const client = clientOf(service.url, 100)
  const states = new OperationStates(systemClock)
  const options = { db, isOwn: () => true, states, ...more }
  const worker = startWorker(test, client, { states: options.states, incidents, settleMs: 0 })
  const repairing = new FillRepair(options)
  try {
    await repairing.look(at)
    for (;;) {
      const { rows } = await pool.query('select from recorder.want where ended_at is null')
      if (rows.length === 0) break
      await systemClock.sleep(20)
    }
    await repairing.look(at)
  } finally {
    await worker.stop()
    client.close()
  }
}

async function storedIds(): Promise<string[]> {
  const { rows } = await test.database.pool.query<{ id: string }>(
    'select exec_id as id from market.fills order by ts, exec_id',
  )
  return rows.map(({ id }) => id)
}

/** Makes ranges that were wanted before due again. */
const makeDue = () => test.database.pool.query('truncate recorder.want cascade')

const gaps = () => listGaps(test.database.db, { streams: ['fills'] })

describe('a gap in fills', () => {
  it.each([10 * minuteMs, hourMs / 2])(
    'of %i ms is filled from the history, and what was recorded joins',
    async (gapMs) => {
      const service = await startService()
      const { truth } = await recordAround(service, gapMs)
      expect((await storedIds()).length).toBeLessThan(truth.length)
      await repair(service)
      expect(await storedIds()).toEqual(truth.map(({ execId }) => execId))
      expect(await gaps()).toMatchObject([{ state: 'repaired' }])
      const { rows: viewed } = await test.database.pool.query('select filled_from from market.gaps')
      expect(viewed).toEqual([{ filled_from: 'history' }])
      const { rows: sources } = await test.database.pool.query(
        'select source, count(*) > 0 as is_there from market.fills group by source order by source',
      )
      expect(sources).toEqual([
        { source: 'live', is_there: true },
        { source: 'history', is_there: true },
      ])
      const { rows } = await test.database.pool.query(`select from market.coverage where stream = 'fills'`)
      expect(rows.length).toBe(1)
    },
  )

  it('is filled but for the milliseconds of rows that cannot be understood, which are kept as rejected ones', async () => {
    const service = await startService({ brokenRows: { operations: ['futures-fills-history'], kind: 'nonsense' } })
    const { truth } = await recordAround(service, 10 * minuteMs)
    await repair(service)
    const stored = new Set(await storedIds())
    const [from = 0, others] = truth.flatMap(({ execId, ts }) => (stored.has(execId) ? [] : [Number(ts)]))
    const open = (await gaps()).filter(({ state }) => state === 'open')
    const gap = { range: { from, to: from + 1 }, reason: 'its history holds rows that cannot be understood' }
    expect({ others, open }).toMatchObject({ others: undefined, open: [gap] })
    const { rows } = await test.database.pool.query('select distinct operation from recorder.rejected_row')
    expect(rows).toEqual([{ operation: 'futures-fills-history' }])
  })

  it.each([
    ['names fills by other ids', { fillsHistoryIds: 'other' }, 'USDT-FUTURES', fillRefusals['other ids'], 'open'],
    ['does not exist', { noFillsHistory: 'code' }, 'USDT-FUTURES', 'away', 'open'],
  ] as const)('stays as it is when the history %s', async (_, quirks, category, reason, state) => {
    const service = await startService(quirks)
    const { gap } = await recordAround(service, minuteMs, category)
    const before = await storedIds()
    await repair(service)
    expect(await storedIds()).toEqual(before)
    expect(await gaps()).toMatchObject([{ state, range: gap, reason }])
  })

  it('stays open where its history lacks fills that are stored, and is filled elsewhere', async () => {
    const hidden = { from: now - 11 * hourMs + minuteMs, to: now }
    const service = await startService({ hiddenFills: [{ ...hidden, in: 'history' }] })
    const { truth, gap } = await recordAround(service, 10 * minuteMs)
    const before = (await storedIds()).length
    await repair(service)
    const added = truth.filter(({ ts }) => Number(ts) > gap.from && Number(ts) < hidden.from).length
    expect((await storedIds()).length).toBe(before + added)
    const open = (await gaps()).filter(({ state }) => state === 'open')
    expect(open.map(({ reason }) => reason)).toContain(fillRefusals.incomplete)
    expect(open.some(({ range }) => range.to === gap.to)).toBe(true)
  })

  it('that a candle has contradicted is asked for once in its time, and closes when its fill comes', async () => {
    const minute = now - 11 * hourMs
    const hiddenFills = [{ symbol, from: minute, to: minute + 10_000 }]
    const look = async (service: Simulator) => {
      await test.database.pool.query(
        `update recorder.ledger set noted_at = now() - interval '11 minutes' where verdict = 'contradicted'`,
      )
      await repair(service)
      const { rows } = await test.database.pool.query<{ requests: number }>('select requests from recorder.want')
      await makeDue()
      return rows.map(({ requests }) => requests)
    }
    // All is claimed without the hidden fills, and no live response ever showed that time.
    const service = await startService({ hiddenFills })
    const { truth } = await recordAround(service, 10_000)
    await look(service)
    expect(await gaps()).toEqual([])
    const series = { category: 'USDT-FUTURES', symbol, type: 'market', interval: '1m' } as const
    const [candle = []] = service.world.candles(series, minute, minute + minuteMs, now)
    const [, open = '', high = '', low = '', close = '', baseVolume = ''] = candle
    await storeCandles(test.database.db, [aCandle({ ...series, openTime: minute, open, high, low, close, baseVolume })])
    const reason = 'the candle of this minute shows more than the fills that are stored'
    for (let time = 0; time < 2; time++) {
      expect(await look(service)).toEqual([expect.toSatisfy((requests: number) => requests < 10)])
      expect(await gaps()).toMatchObject([{ state: 'open', reason }])
    }
    await service.close()
    await look(await startService())
    expect(await storedIds()).toEqual(truth.map(({ execId }) => execId))
    expect(await gaps()).toMatchObject([{ state: 'repaired' }])
  })

  it('is filled from a history in whole seconds, whose fills are joined by their ids', async () => {
    const service = await startService({ spotHistoryInSeconds: true })
    const { truth } = await recordAround(service, 10 * minuteMs, 'SPOT')
    await repair(service)
    expect((await storedIds()).toSorted()).toEqual(truth.map(({ execId }) => execId).toSorted())
    expect(new Set((await gaps()).map(({ state }) => state))).toEqual(new Set(['repaired']))
    const { rows } = await test.database.pool.query<{ id: string; ts: number; source: string }>(
      'select exec_id as id, (extract(epoch from ts) * 1000)::bigint as ts, source from market.fills',
    )
    const times = new Map(truth.map(({ execId, ts }) => [execId, Number(ts)]))
    for (const { id, ts, source } of rows) {
      const time = times.get(id) ?? NaN
      expect(ts).toBe(source === 'live' ? time : Math.floor(time / 1_000) * 1_000)
    }
  })

  it('is filled where one category has other ids than another', async () => {
    const service = await startService({ fillsHistoryIds: { 'COIN-FUTURES': 'other' } })
    const { series } = await recordAround(service, minuteMs)
    const coin = service.world.listings().find(({ category }) => category === 'COIN-FUTURES')?.symbol ?? ''
    const [fill] = service.world.latestFills('COIN-FUTURES', coin, now - 12 * hourMs, 1)
    if (fill === undefined) throw new Error('nothing was traded')
    const ts = Number(fill.ts)
    const of = { category: 'COIN-FUTURES', symbol: coin } as const
    await insertFills(test.database.db, [{ ...aFill({ ...of, ts }), execId: fill.execId }])
    const range = { from: ts, to: ts + minuteMs }
    // The newest gap is fetched first.
    await recordGap(test.database.db, { ...series, ...of, range, reason: 'away', detectedAt: now })
    await repair(service)
    const states = (await gaps()).map(({ symbol: name, state }) => [name, state])
    expect(states).toContainEqual([symbol, 'repaired'])
    expect(states).toContainEqual([coin, 'open'])
  })

  it('is an incident while its history is unusable, which ends when gaps are filled again', async () => {
    let monotonicMs = 0
    const incidents = new Incidents(createLogger('silent'), { ...systemClock, monotonicMs: () => monotonicMs })
    const service = await startService({ fillsHistoryIds: 'other' })
    await recordAround(service, minuteMs)
    await repair(service, {}, incidents)
    const incident = { what: 'futures-fills-history', message: fillRefusals['other ids'] }
    expect(incidents.recent()).toMatchObject([{ ...incident, until: null }])
    service.control.setQuirks({ fillsHistoryIds: 'same' })
    await test.database.pool.query('truncate recorder.want cascade')
    monotonicMs += dayMs
    await repair(service, {}, incidents)
    expect(await gaps()).toMatchObject([{ state: 'repaired' }])
    expect(incidents.recent()).toMatchObject([{ ...incident, until: expect.any(Number) as number }])
  })

  it('is lost once responses agree over minutes that the service has no history, and open again when it has', async () => {
    const service = await startService({ noFillsHistory: 'code' })
    const { truth } = await recordAround(service, minuteMs)
    const asked = () => service.control.report()['127.0.0.1']?.operations['futures-fills-history'].requests
    let monotonicMs = 0
    const states = new OperationStates({ monotonicMs: () => monotonicMs })
    const look = async (afterMs: number) => {
      monotonicMs += afterMs
      await makeDue()
      await repair(service, { states })
      return (await gaps()).map(({ state }) => state)
    }
    expect(await look(0)).toEqual(['open'])
    expect(await look(absenceWaitsMs[0] - 1)).toEqual(['open'])
    expect(asked()).toBe(1)
    expect(await look(1)).toEqual(['open'])
    expect(await look(absenceWaitsMs[1])).toEqual(['lost'])
    expect(asked()).toBe(3)
    expect(await look(absenceWaitsMs[2])).toEqual(['lost'])
    service.control.setQuirks({ noFillsHistory: null })
    await look(absenceWaitsMs[3])
    expect(await look(0)).toEqual(['repaired'])
    expect(await storedIds()).toEqual(truth.map(({ execId }) => execId))
  })

  it.each(['html', 'notFound'] as const)(
    'stays open behind a proxy that sends a page (%s), which is an incident, and is filled minutes later',
    async (noFillsHistory) => {
      const service = await startService({ noFillsHistory })
      await recordAround(service, minuteMs)
      let monotonicMs = 0
      const states = new OperationStates({ monotonicMs: () => monotonicMs })
      const incidents = new Incidents(createLogger('silent'), { ...systemClock, monotonicMs: () => monotonicMs })
      for (const waitMs of absenceWaitsMs.slice(0, 4)) {
        await makeDue()
        await repair(service, { states }, incidents)
        expect(await gaps()).toMatchObject([{ state: 'open' }])
        monotonicMs += waitMs
      }
      expect(incidents.recent()).toMatchObject([{ what: 'futures-fills-history', count: 4, until: null }])
      service.control.setQuirks({ noFillsHistory: null })
      await makeDue()
      await repair(service, { states }, incidents)
      expect(await gaps()).toMatchObject([{ state: 'repaired' }])
      expect(incidents.recent()).toMatchObject([{ until: expect.any(Number) as number }])
    },
  )

  it('is open again, and due at once, each time that the service has a history after it had none', async () => {
    const service = await startService()
    const { series, gap } = await recordAround(service, minuteMs)
    const { db, pool } = test.database
    let monotonicMs = 0
    const states = new OperationStates({ monotonicMs: () => monotonicMs })
    const repairing = new FillRepair({ db, isOwn: () => true, states })
    for (let time = 0; time < 2; time++) {
      for (const waitMs of absenceWaitsMs.slice(0, 3)) {
        monotonicMs += waitMs
        states.note('futures-fills-history', 'absent')
      }
      await repairing.look(now)
      expect(await gaps()).toMatchObject([{ state: 'lost' }])
      await repairInVain(db, series, [gap], 4)
      await pool.query(`update recorder.want set failure = 'absent'`)
      states.note('futures-fills-history', 'present')
      await repairing.look(now)
      expect(await gaps()).toMatchObject([{ state: 'open' }])
      expect(await wantedRanges(db, symbol)).toEqual([gap])
      monotonicMs += dayMs
    }
  })

  it('that is lost is wanted to learn of the history, and the next one while that does not tell', async () => {
    const service = await startService()
    const { series } = await recordAround(service, minuteMs)
    const range = { from: now - 20 * hourMs, to: now - 19 * hourMs }
    await recordGap(test.database.db, { ...series, symbol: 'ETHUSDT', range, reason: 'away', detectedAt: now - dayMs })
    const of = { db: test.database.db, isOwn: () => true }
    await loseGaps(test.database.db, 'fills', 'infinity')
    const repairing = new FillRepair({ ...of, states: new OperationStates(systemClock) })
    const wanted = async () => {
      await repairing.look(now)
      const { rows } = await test.database.pool.query('select symbol from recorder.want order by id')
      return rows.map(({ symbol }) => String(symbol))
    }
    expect(await wanted()).toEqual(['ETHUSDT'])
    await test.database.pool.query('update recorder.want set ended_at = now()')
    expect(await wanted()).toEqual(['ETHUSDT', 'BTCUSDT'])
    expect(await wanted()).toEqual(['ETHUSDT', 'BTCUSDT'])
  })

  it('is lost once the history does not reach its end any more, and not before', async () => {
    const service = await startService()
    const { gap } = await recordAround(service, minuteMs)
    const before = await storedIds()
    await repair(service, { at: gap.to + fillReachMs })
    expect(await gaps()).toMatchObject([{ state: 'lost' }])
    expect(await storedIds()).toEqual(before)
    await repair(service, { at: gap.to + fillReachMs - 1 })
    expect(await gaps()).toMatchObject([{ state: 'repaired' }])
  })

  it('is left to the recorder that requests the instrument', async () => {
    const service = await startService()
    const { gap } = await recordAround(service, minuteMs)
    await repair(service, { isOwn: () => false })
    expect(await gaps()).toMatchObject([{ state: 'open', range: gap }])
  })
})
