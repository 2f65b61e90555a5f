import { pino } from 'pino'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { keepWatchingEvidence } from '../../../src/collect/watchEvidence.js'
import { type Clock, systemClock } from '../../../src/runtime/clock.js'
import { Incidents } from '../../../src/runtime/incidents.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

const logger = pino({ level: 'silent' })

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created?.drop())

/** Stores an instrument of whose fills candles contradict this many minutes of the last hour. */
async function contradict(category: string, minutes: number): Promise<void> {
  await created.database.pool.query(
    `insert into recorder.ledger (stream, category, symbol, verdict, ranges, part, reason, settled_at)
     select 'fills', $1::market.category, 'BTCUSDT', 'unsettled', '{}'::tstzmultirange, '-infinity'::timestamptz, null, 'infinity'::timestamptz
     union all
     select 'fills', $1::market.category, 'BTCUSDT', 'contradicted', tstzmultirange(tstzrange(t, t + interval '1 minute')), t, 'test', null
     from generate_series(1, $2::integer) as n,
       lateral (select date_trunc('minute', now()) - n * interval '1 minute') as m (t)`,
    [category, minutes],
  )
}

test('categories whose candles contradict many minutes are one incident, until none is left', async () => {
  await contradict('SPOT', 18)
  await contradict('USDT-FUTURES', 36)
  await contradict('COIN-FUTURES', 3)
  const clock: Clock = { ...systemClock, sleep: (_ms, signal) => systemClock.sleep(5, signal) }
  let lateMs = 0
  const incidents = new Incidents(logger, { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + lateMs })
  const ending = new AbortController()
  const { signal } = ending
  const watching = keepWatchingEvidence(created.database.db, { clock, logger, incidents, signal, isOwn: () => true })
  const found = () => incidents.recent().filter(({ what }) => what === 'contradicted fills')
  await vi.waitFor(() => expect(found()).toHaveLength(1), 120_000)
  expect(found()[0]).toMatchObject({
    message: 'candles contradict 1.3 % of the minutes of SPOT, 2.5 % of the minutes of USDT-FUTURES in the last day',
    until: null,
  })
  await created.database.pool.query("delete from recorder.ledger where verdict = 'contradicted'")
  lateMs = 60_000
  await vi.waitFor(() => expect(found()[0]?.until).not.toBeNull(), 120_000)
  ending.abort()
  await watching
})
