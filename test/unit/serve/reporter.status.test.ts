import pino from 'pino'
import { describe, expect, test } from 'vitest'
import { loadConfig } from '../../../src/config/resolve.js'
import { type BackfillStatus, recorderResponses } from '../../../src/serve/api/contract.js'
import type { DatabaseState } from '../../../src/serve/databaseProbe.js'
import { goByDisk } from '../../../src/serve/byDisk.js'
import { freshnessLimits } from '../../../src/serve/freshness.js'
import { Sampler } from '../../../src/serve/sampler.js'
import { inWords } from '../../../src/runtime/text.js'
import { Incidents } from '../../../src/runtime/incidents.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { statusReport } from '../../../src/serve/reporter.js'
import { freshen, settableSource, type SettableSource } from '../../support/recorderSource.js'

const now = 1_800_000_000_000
const nowMs = 100_000
const reachable: DatabaseState = {
  isReachable: true,
  respondedAt: now - 1000,
  latencyMs: 1.5,
  lagMs: null,
  error: null,
  overview: { bytes: 5, gaps: [{ stream: 'fills', state: 'lost', reason: 'x', count: 2 }] },
  jobs: null,
}

function report(
  prepare: (source: SettableSource) => void = () => undefined,
  database = reachable,
  backfills: readonly BackfillStatus[] = [],
  sampledMs = 60_000,
) {
  const source = settableSource(now - 3_600_000)
  freshen(source, now - 1000)
  prepare(source)
  const sampler = new Sampler(source, { now: () => now - sampledMs })
  try {
    sampler.sample()
    const limits = freshnessLimits(loadConfig({ env: {} }))
    return statusReport({ now, nowMs, instanceId: 'i', version: 'v', source, sampler, limits, database, backfills })
  } finally {
    sampler.close()
  }
}

test('a recorder that is well has no problems, and its report is as the contract says', () => {
  const well = report()
  expect(well.problems).toEqual([])
  expect(recorderResponses.status.parse(well)).toEqual(well)
})

test('jobs of the database that fail or do not run are a problem that does not block', () => {
  const jobs = { count: 17, failed: 0, late: 0, workers: 20, isFailingPair: false }
  expect(report(undefined, { ...reachable, jobs }).problems).toEqual([])
  const { problems, database } = report(undefined, { ...reachable, jobs: { ...jobs, failed: 2, late: 1 } })
  expect(problems).toEqual([
    {
      about: 'database',
      name: 'jobs',
      message:
        '2 of 17 jobs of TimescaleDB failed at their last run; 1 of 17 jobs of TimescaleDB have been due for half an hour and do not run: chunks may stay unconverted, and rollups old; timescaledb_information.job_errors says why; raise max_worker_processes, or see whether the background workers were stopped.',
      isBlocking: false,
    },
  ])
  expect(recorderResponses.status.shape.database.parse(database).jobs).toMatchObject({ count: 17, failed: 2, late: 1 })
})

test('an incident is reported as the contract says', () => {
  const incidents = new Incidents(pino({ level: 'silent' }), systemClock)
  incidents.failed('fills', 'the service is busy', 'SPOT')
  const shown = report((source) => (source.state.incidents = [...incidents.recent()]))
  expect(recorderResponses.status.parse(shown).incidents).toMatchObject([{ what: 'fills', count: 1, until: null }])
})

test('candles that contradict many minutes of a category are a problem while they do', () => {
  const incidents = new Incidents(pino({ level: 'silent' }), systemClock)
  incidents.failed('contradicted fills', 'candles contradict 2.0 % of the minutes of SPOT in the last day')
  const [open] = incidents.recent()
  const shown = (until: number | null) =>
    report((source) => (source.state.incidents = open === undefined ? [] : [{ ...open, until }])).problems
  expect(shown(null)).toMatchObject([
    { about: 'gap', name: 'fills', message: expect.stringContaining('2.0 %') as string, isBlocking: false },
  ])
  expect(shown(now)).toEqual([])
})

test('a list that the next one has to confirm is a problem until it comes', () => {
  const incidents = new Incidents(pino({ level: 'silent' }), systemClock)
  incidents.failed('instruments list', '1 of SPOT after 151: something')
  const [open] = incidents.recent()
  const shown = (until: number | null) =>
    report((source) => (source.state.incidents = open === undefined ? [] : [{ ...open, until }])).problems
  const message = 'instruments list: 1 of SPOT after 151: something. It is asked for again within a minute.'
  expect(shown(null)).toEqual([{ about: 'stream', name: 'instruments', message, isBlocking: false }])
  expect(shown(now)).toEqual([])
})

test('a stream that has recorded and covers nothing now is a problem', () => {
  const shown = (lastStoredAt: number | null) =>
    report((source) => Object.assign(source.streams.order_books, { targets: 0, lastStoredAt })).problems
  expect(shown(null)).toEqual([])
  expect(shown(now)).toMatchObject([{ about: 'stream', name: 'order_books', isBlocking: false }])
})

test.each([true, false])(
  'lost responses are the first thing that is said; the database responds: %s',
  (isReachable) => {
    const incidents = new Incidents(pino({ level: 'silent' }), systemClock)
    incidents.failed('lost responses', 'fills: neither database nor disk takes them: ENOSPC')
    const { problems, streams } = report(
      ({ state }) => {
        state.incidents = [...incidents.recent()]
        state.backlog.isSpooling = true
        Object.assign(state.stats.fills, { responses: 9, lastStoredAt: now - 86_400_000 })
      },
      { ...reachable, isReachable, error: 'connection refused' },
    )
    const message = 'Responses are lost: fills: neither database nor disk takes them: ENOSPC'
    expect(problems[0]).toEqual({ about: 'spool', name: 'spool', message, isBlocking: true })
    expect(problems[1]).toMatchObject({ about: isReachable ? 'stream' : 'database', isBlocking: true })
    expect(problems[1]?.message).not.toContain('Nothing is lost')
    expect(problems).toHaveLength(2)
    expect(streams.find(({ name }) => name === 'fills')?.state).toBe('stale')
    expect(goByDisk({ database: { isReachable }, problems })).toBe(false)
  },
)

describe('a stream of which nothing usable comes', () => {
  const failing = (name: 'tickers' | 'funding_forecasts', phase: 'starting' | 'collecting') =>
    report(({ state }) => {
      state.phase = phase
      for (const [category, startedMs] of [
        ['SPOT', 40_000],
        ['MARGIN', 60_000],
      ] as const)
        state.stats[name].outage.failed(
          category,
          { target: null, kind: 'malformed', message: `${category}: HTML; check the address`, startedMs },
          startedMs,
        )
    })

  test.each(['starting', 'collecting'] as const)('is a blocking problem while the recorder is %s', (phase) => {
    const { problems, streams } = failing('tickers', phase)
    expect(problems).toContainEqual({
      about: 'stream',
      name: 'tickers',
      message: 'tickers of SPOT, MARGIN: nothing usable for 60 s: SPOT: HTML; check the address',
      isBlocking: true,
    })
    const shown = streams.find(({ name }) => name === 'tickers')
    expect(shown).toMatchObject({ state: 'failing', outage: { categories: ['SPOT', 'MARGIN'], forMs: 60_000 } })
    expect(recorderResponses.status.parse(failing('tickers', phase)).problems).toEqual(problems)
  })

  test('is none where a service may lack the operation: it becomes stale in time', () => {
    const { problems, streams } = failing('funding_forecasts', 'collecting')
    expect(problems).toEqual([])
    expect(streams.find(({ name }) => name === 'funding_forecasts')).toMatchObject({ state: 'fresh', outage: null })
  })

  test('is one problem with all that fail for the same cause', () => {
    const refused = { target: null, kind: 'network' as const, message: 'network: refused' }
    const { problems, streams } = report(({ state: { stats } }) => {
      const fail = (name: keyof typeof stats, message: string, category: string, startedMs: number) => {
        for (const ms of [startedMs, startedMs + 20_000])
          stats[name].outage.failed(category, { ...refused, message, startedMs: ms }, ms)
      }
      for (const category of ['COIN-FUTURES', 'SPOT']) fail('tickers', refused.message, category, 10_000)
      for (const category of ['SPOT', 'COIN-FUTURES']) fail('fills', refused.message, category, 20_000)
      fail('candles', refused.message, 'SPOT', 30_000)
      fail('instruments', 'malformed: HTML', '', 40_000)
      // This one the service may lack. It says why only once it is stale.
      for (const name of ['funding_forecasts', 'liquidations'] as const) fail(name, refused.message, 'SPOT', 10_000)
      stats.liquidations.lastStoredAt = now - 86_400_000
    })
    expect(problems.map(({ name, message }) => [name, message])).toEqual([
      ['instruments', 'instruments: nothing usable for 60 s: malformed: HTML'],
      [
        'tickers, fills, candles, liquidations',
        'tickers, fills of SPOT, COIN-FUTURES; candles, liquidations of SPOT: nothing usable for up to 90 s: network: refused',
      ],
    ])
    expect(streams.filter(({ state }) => state === 'stale').map(({ name }) => name)).toEqual(['liquidations'])
  })
})

test('of many backfills those that run or failed are shown, and all are counted', () => {
  const work = { what: 'x', doneShare: null, reachedAt: null, etaMs: null, message: null }
  const states = [...Array<'waiting'>(40).fill('waiting'), ...Array<'failed'>(5).fill('failed'), 'running' as const]
  const reported = report(
    undefined,
    undefined,
    states.map((state, id) => ({ ...work, id: `${id}`, state })),
  )
  expect(reported.backfillCounts).toEqual({ waiting: 40, running: 1, failed: 5 })
  expect(reported.backfills).toHaveLength(30)
  expect(reported.backfills.map(({ state }) => state).slice(0, 7)).toEqual([
    'running',
    ...Array<string>(5).fill('failed'),
    'waiting',
  ])
  expect(recorderResponses.status.parse(reported)).toEqual(reported)
})

describe('what is wrong is said in words', () => {
  const messages = (...args: Parameters<typeof report>) => report(...args).problems

  test('a stale stream', () => {
    const [problem] = messages(({ state }) => {
      state.stats.tickers.lastStoredAt = now - 90_000
    })
    expect(problem).toMatchObject({
      about: 'stream',
      name: 'tickers',
      isBlocking: true,
      message: 'tickers: nothing stored for 90 s; the limit is 40 s.',
    })
  })

  test('a stream whose newest row is new while most of its instruments starve', () => {
    const [problem] = messages(({ state }) => {
      Object.assign(state.stats.fills, { targets: 400, lateTargets: 380, lastStoredAt: now - 1000 })
    })
    expect(problem).toMatchObject({
      about: 'stream',
      message: 'fills: 95 % of what it covers (380 of 400) are overdue.',
    })
  })

  test('a database that is away', () => {
    const away = { ...reachable, isReachable: false, respondedAt: now - 300_000, latencyMs: null, error: 'refused' }
    const never = { ...away, respondedAt: null }
    const storing = (at: number | null) => (source: SettableSource) => {
      for (const stats of Object.values(source.state.stats)) stats.lastStoredAt = at
      source.state.backlog.isSpooling = true
    }
    const message = 'The database has been away for 90 s, since 2027-01-15 07:58:30 UTC: refused. '
    const kept = 'Nothing is lost: responses go to the disk until it is back.'
    // Streams that are late by it, and responses on the disk, are the same problem.
    expect(messages(storing(now - 90_000), away).map((one) => one.message)).toEqual([message + kept])
    expect(messages(storing(null), never)[0]?.message).toContain('has been away since the start: refused. ')
    // What was stored since shows that it is only slow.
    expect(messages(storing(now - 1_000), away)[0]?.message).toBe(`The database hardly responds: refused. ${kept}`)
    const losing = messages((source) => {
      storing(now - 90_000)(source)
      source.state.stats.fills.rowsDropped = 3
    }, away)
    expect(losing[0]?.message).toBe(message.trim())
    const [waiting] = messages(({ state }) => (state.phase = 'waiting'), never)
    expect(waiting?.message).toMatch(/^No requests are sent: the database is away/)
  })

  test('a standby says nothing else', () => {
    const problems = messages(({ state }) => {
      state.phase = 'waiting'
      state.stats.fills.lastStoredAt = null
      state.maySend = false
    })
    expect(problems.map(({ about }) => about)).toEqual(['egress'])
  })

  test('a lost right to send', () => {
    expect(messages(({ state }) => void (state.maySend = false))).toMatchObject([{ about: 'egress', isBlocking: true }])
  })

  test('live requests that wait past their deadline, not those that wait within it', () => {
    const waiting = (overdueMs: number) =>
      messages(({ state }) => {
        const live = { count: 9, oldestWaitMs: 45_000, overdueMs }
        state.budget = { ...state.budget, waiting: { ...state.budget.waiting, live } }
      })
    expect(waiting(0)).toEqual([])
    expect(waiting(11_000)).toMatchObject([{ about: 'budget', name: 'live', isBlocking: false }])
  })

  test('a recorder that shares the work and is gone', () => {
    const of = (egress: string, state: 'recording' | 'gone', silentMs: number) =>
      ({ egress, place: 'host 1', state, silentMs, instruments: 3, perSecond: 0.5 }) as const
    const withFleet = (source: SettableSource) => {
      source.state.fleet = { unowned: 0, recorders: [of('a', 'recording', 0), of('b', 'gone', 90_000)] }
    }
    expect(messages(withFleet)).toEqual([
      {
        about: 'egress',
        name: 'b',
        isBlocking: false,
        message: 'The recorder of b has been gone for 90 s; its instruments have been taken over by the others.',
      },
    ])
    expect(recorderResponses.status.parse(report(withFleet)).fleet.recorders).toHaveLength(2)
  })

  test('a pause after a rejection', () => {
    const problems = messages(({ state }) => void (state.budget.pausedMs = 1500))
    expect(problems[0]?.message).toContain('pause for 2 s')
  })

  test('a spool in use for long, and one that fills up', () => {
    const spooling = ({ state }: SettableSource) => {
      state.backlog.isSpooling = true
      state.backlog.spooledBytes = 600_000
    }
    expect(messages(spooling, reachable, [], 59_000)).toHaveLength(1)
    const problems = messages(spooling)
    expect(problems.map(({ message }) => message)).toEqual([
      'Responses have gone to the disk for 60 s, to be stored when the database takes them: see to its load.',
      'The spool is 60 % full; when it is full, the oldest responses are dropped.',
    ])
  })
})

test('rates are means of the last ten seconds', () => {
  const source = settableSource(now)
  const sampler = new Sampler(source, { now: () => now })
  try {
    for (let second = 1; second <= 20; second++) {
      source.state.stats.fills.rowsWritten += second <= 10 ? 1000 : 5
      sampler.sample()
    }
    expect(sampler.rowsPerSecond('fills')).toBe(5)
    expect(sampler.history('fills')).toEqual([1000, 1000, 5, 5])
  } finally {
    sampler.close()
  }
})

test.each([
  [1_400, '1 s'],
  [119_000, '119 s'],
  [120_000, '2 min'],
  [7_200_000, '2 h'],
  [200_000_000, '2 days'],
])('%i ms are %s', (ms, words) => {
  expect(inWords(ms)).toBe(words)
})
