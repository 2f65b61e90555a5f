import { afterAll, beforeAll, expect, it } from 'vitest'
import { callFunction } from '../../../src/db/database.js'
import { instrumentStream, seriesValues } from '../../../src/db/series.js'
import { OperationStates } from '../../../src/history/reach.js'
import { FillRepair } from '../../../src/history/repairs.js'
import { listGaps, recordGap } from '../../../src/ledger/gaps.js'
import { explainFills } from '../../../src/ledger/storePastFills.js'
import { normalized } from '../../../src/market/timeRange.js'
import { hourMs, minuteMs } from '../../../src/market/values.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { wantedRanges } from '../../support/backfill.js'
import { addCoverage } from '../../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test.drop())

it('goes through six hundred gaps that were found at the same moment in two looks', async () => {
  const { db, pool } = test.database
  const now = Date.UTC(2026, 10, 20)
  const series = instrumentStream('fills', { category: 'USDT-FUTURES', symbol: 'BTCUSDT' })
  for (let number = 0; number < 600; number++) {
    const from = now - hourMs - number * minuteMs
    await recordGap(db, { ...series, range: { from, to: from + 1 }, reason: 'away' })
  }
  await pool.query(`update recorder.ledger set noted_at = '2026-11-19 12:00:00.000456Z'`)
  const states = new OperationStates(systemClock)
  states.note('futures-fills-history', 'present')
  const repair = new FillRepair({ db, isOwn: () => true, states })
  await repair.look(now)
  expect(await wantedRanges(db, 'BTCUSDT')).toHaveLength(500)
  await repair.look(now)
  expect(await wantedRanges(db, 'BTCUSDT')).toHaveLength(600)
})

it('notes why a range is missing in the gaps that it touches, and the rest of it as a gap', async () => {
  const { db, pool } = test.database
  await pool.query('truncate recorder.ledger, recorder.want cascade')
  const key = { category: 'USDT-FUTURES', symbol: 'BTCUSDT' } as const
  const series = instrumentStream('fills', key)
  const from = Date.UTC(2026, 10, 20)
  await recordGap(db, { ...series, range: { from, to: from + 1_000 }, reason: 'more fills happened' })
  await addCoverage(db, series, [{ from: from + 5_000, to: from + 6_000 }])
  await explainFills(db, key, { from: from - hourMs, to: from + hourMs }, 'nothing older')
  const gaps = await listGaps(db, { streams: ['fills'] })
  expect(gaps.every(({ reason }) => reason === 'nothing older')).toBe(true)
  expect(normalized(gaps.map(({ range }) => range))).toEqual([
    { from: from - hourMs, to: from + 5_000 },
    { from: from + 6_000, to: from + hourMs },
  ])
})

it('asks for contradicted minutes after ten minutes, an hour, six hours and daily, and for few at a look', async () => {
  const { db, pool } = test.database
  const reason = 'the candle of this minute shows more than the fills that are stored'
  const now = Date.UTC(2026, 10, 20)
  await pool.query('truncate recorder.ledger, recorder.want cascade')
  const series = instrumentStream('fills', { category: 'USDT-FUTURES', symbol: 'BTCUSDT' })
  for (let number = 0; number < 30; number++) {
    const from = now - hourMs - 2 * number * minuteMs
    const minute = `["${new Date(from).toISOString()}","${new Date(from + minuteMs).toISOString()}")`
    await recordGap(db, { ...series, range: { from, to: from + minuteMs }, reason })
    const against = [...seriesValues(series), `{${JSON.stringify(minute)}}`, reason]
    await callFunction(db, 'recorder.note_evidence', ...against)
  }
  const states = new OperationStates(systemClock)
  states.note('futures-fills-history', 'present')
  const repair = new FillRepair({ db, isOwn: () => true, states })
  const wantedAfter = async (minutes: number) => {
    await pool.query(`update recorder.want set ended_at = now()`)
    await pool.query(`update recorder.ledger set noted_at = now() - make_interval(mins => $1)`, [minutes])
    await pool.query(`update recorder.want set ended_at = now() - make_interval(mins => $1)`, [minutes])
    await repair.look(now)
    return (await wantedRanges(db, 'BTCUSDT')).length
  }
  expect(await wantedAfter(9)).toBe(0)
  expect(await wantedAfter(11)).toBe(20)
  await pool.query(`delete from recorder.ledger where part > $1`, [new Date(now - hourMs - 19 * minuteMs)])
  expect(await wantedAfter(59)).toBe(0)
  expect(await wantedAfter(61)).toBe(20)
  expect(await wantedAfter(359)).toBe(0)
  expect(await wantedAfter(361)).toBe(20)
  expect(await wantedAfter(1439)).toBe(0)
  expect(await wantedAfter(1441)).toBe(20)
})
