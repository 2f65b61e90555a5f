import { pino } from 'pino'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
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
beforeEach(() => created.database.pool.query('delete from recorder.ledger'))

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

type Watched = ReturnType<typeof watch>

/** Watches the evidence without a pause between looks. */
function watch() {
  let lateMs = 0
  let looks = 0
  let isOwn = true
  const sleep: Clock['sleep'] = (_ms, signal) => {
    looks += 1
    return systemClock.sleep(5, signal)
  }
  const clock: Clock = { ...systemClock, sleep }
  const incidents = new Incidents(logger, { ...systemClock, monotonicMs: () => systemClock.monotonicMs() + lateMs })
  const ending = new AbortController()
  const { signal } = ending
  const watching = keepWatchingEvidence(created.database.db, { clock, logger, incidents, signal, isOwn: () => isOwn })
  const end = () => {
    ending.abort()
    return watching
  }
  const own = (value: boolean) => (isOwn = value)
  return { incidents, looks: () => looks, own, passSeconds: (seconds: number) => (lateMs += seconds * 1000), end }
}

test('categories whose candles contradict many minutes are one incident, until none is left', async () => {
  await contradict('SPOT', 18)
  await contradict('USDT-FUTURES', 36)
  await contradict('COIN-FUTURES', 3)
  const { incidents, passSeconds, end } = watch()
  const found = () => incidents.recent().filter(({ what }) => what === 'contradicted fills')
  await vi.waitFor(() => expect(found()).toHaveLength(1), 120_000)
  expect(found()[0]).toMatchObject({
    message: 'candles contradict 1.3 % of the minutes of SPOT, 2.5 % of the minutes of USDT-FUTURES in the last day',
    until: null,
  })
  await created.database.pool.query("delete from recorder.ledger where verdict = 'contradicted'")
  passSeconds(60)
  await vi.waitFor(() => expect(found()[0]?.until).not.toBeNull(), 120_000)
  await end()
})

/** Notes that a candle contradicts a minute of an instrument. */
const note = (symbol: string) =>
  `select recorder.note_evidence('fills', 'SPOT', '${symbol}', '', '', array[tstzrange('2026-01-15 12:00Z', '2026-01-15 12:01Z')],
    'the candle of this minute shows more than the fills that are stored')`
const evidence = ({ incidents }: Watched) => incidents.recent().filter(({ what }) => what === 'evidence')
const looks = async (watched: Watched, count: number) => {
  const before = watched.looks()
  await vi.waitFor(() => expect(watched.looks()).toBeGreaterThan(before + count), 120_000)
}

test('evidence is one incident as long as it stands, and is reported once', async () => {
  const watched = watch()
  await looks(watched, 1)
  await created.database.pool.query(note('BTCUSDT'))
  await vi.waitFor(() => expect(evidence(watched)).toHaveLength(1), 120_000)
  watched.passSeconds(60)
  await looks(watched, 3)
  expect(evidence(watched)).toMatchObject([{ count: 1, until: null }])
  await created.database.pool.query('delete from recorder.ledger')
  await vi.waitFor(() => expect(evidence(watched)[0]?.until).not.toBeNull(), 120_000)
  await watched.end()
})

test('a recorder that no longer looks ends its incident, and has it again once it looks', async () => {
  await created.database.pool.query(note('BTCUSDT'))
  const watched = watch()
  await vi.waitFor(() => expect(evidence(watched)).toHaveLength(1), 120_000)
  watched.own(false)
  await vi.waitFor(() => expect(evidence(watched)[0]?.until).not.toBeNull(), 120_000)
  watched.own(true)
  await vi.waitFor(() => expect(evidence(watched)).toMatchObject([{ until: null }, {}]), 120_000)
  await watched.end()
})

test('evidence that commits after younger evidence is reported, too', async () => {
  const watched = watch()
  await looks(watched, 1)
  const slow = new pg.Client({ connectionString: created.url })
  await slow.connect()
  await slow.query('begin')
  await slow.query(note('SLOWUSDT'))
  await created.database.pool.query(note('QUICKUSDT'))
  await vi.waitFor(() => expect(evidence(watched)[0]?.message).toMatch(/QUICKUSDT/), 120_000)
  await slow.query('commit')
  await vi.waitFor(() => expect(evidence(watched)[0]?.message).toMatch(/SLOWUSDT/), 120_000)
  expect(evidence(watched)).toMatchObject([{ count: 2 }])
  expect(evidence(watched)[0]?.message).not.toMatch(/QUICKUSDT/)
  await slow.end()
  await watched.end()
})

test('what stood before is one report, however much it is', async () => {
  await created.database.pool.query(
    `insert into recorder.ledger (stream, category, symbol, verdict, ranges, part, reason)
     select 'fills', 'SPOT', 'BTCUSDT', 'disputed', tstzmultirange(tstzrange(t, t + interval '1 ms')), t, 'test'
     from generate_series(timestamptz '2026-01-15', '2026-01-16', '1 minute') as g (t)`,
  )
  const watched = watch()
  await vi.waitFor(() => expect(evidence(watched)).toHaveLength(1), 120_000)
  await created.database.pool.query('delete from recorder.ledger where part >= $1', ['2026-01-15 20:00Z'])
  await looks(watched, 5)
  expect(evidence(watched)).toMatchObject([{ count: 1, until: null }])
  expect(evidence(watched)[0]?.message).toMatch(
    /^rows still contradict what was claimed before: .*, 1000 or more together/,
  )
  await watched.end()
})
