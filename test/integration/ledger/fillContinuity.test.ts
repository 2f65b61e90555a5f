import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { FillBatch } from '../../../src/ledger/batch.js'
import { storeFills } from '../../../src/ledger/storeFills.js'
import { fillsPerPage } from '../../../src/market/rows.js'
import { normalized, type TimeRange } from '../../../src/market/timeRange.js'
import { batchOf } from '../../support/batches.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aFill } from '../../support/marketRows.js'

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
})
afterAll(() => database.drop())

interface Watched {
  /** Places of the fills of the market that are stored. */
  readonly stored: ReadonlySet<number>
  readonly covered: readonly TimeRange[]
  readonly gaps: readonly TimeRange[]
}

const start = 1_760_000_000_000

interface Market {
  /** When its fills happened. */
  readonly times: readonly number[]
  /** How many had happened at each response. */
  readonly pollAfter: readonly number[]
}

interface Watching {
  /** The order in which the responses are stored. */
  readonly order?: (polls: number[]) => number[]
  /** Another instrument, whose responses are stored in the same calls. */
  readonly beside?: Market
  /** How long after the newest fill the service was asked. */
  readonly askedAfterMs?: number
}

/** Responses of an instrument, and the places of the fills that they show. */
function pagesOf(symbol: string, { times, pollAfter }: Market, askedAfterMs: number) {
  const shown = new Set<number>()
  const pages = pollAfter.map((happened): FillBatch => {
    const places = [...times.keys()].slice(Math.max(0, happened - fillsPerPage), happened)
    for (const place of places) shown.add(place)
    const rows = places.map((place) => aFill({ symbol, ts: start + (times[place] ?? 0), execId: String(place) }))
    const asked = start + (times[happened - 1] ?? (times[0] ?? 0) - 1) + (happened === 0 ? 0 : askedAfterMs)
    return batchOf('fills', { category: 'SPOT', symbol }, rows.toReversed(), asked) as FillBatch
  })
  return { shown, pages }
}

/** What the database holds of the instrument after such responses. */
async function watch(
  market: Market,
  { order = (polls) => polls, beside, askedAfterMs = 60_000 }: Watching = {},
): Promise<Watched> {
  const { db } = database.database
  await sql`truncate market.fills, recorder.ledger`.execute(db)
  const ordered = { ...market, pollAfter: order([...market.pollAfter]) }
  const { shown: stored, pages } = pagesOf('BTCUSDT', ordered, askedAfterMs)
  const others = beside === undefined ? [] : pagesOf('ETHUSDT', beside, askedAfterMs).pages
  for (let at = 0; at < Math.max(pages.length, others.length); at++) {
    const call = [pages[at], others[at]].filter((page) => page !== undefined)
    await db.transaction().execute((trx) => storeFills(trx, call))
  }
  const rangesOf = async (view: string, condition: string) => {
    const { rows } = await sql<TimeRange>`
      select from_time as "from", to_time as "to" from ${sql.table(view)}
      where stream = 'fills' and symbol = 'BTCUSDT' and ${sql.raw(condition)} order by 1, 2`.execute(db)
    return rows.map(({ from, to }) => ({ from: from - start, to: to - start }))
  }
  const { rows } = await sql<{ id: string }>`
    select exec_id as id from market.fills where symbol = 'BTCUSDT'`.execute(db)
  expect(new Set(rows.map(({ id }) => Number(id)))).toEqual(stored)
  const covered = await rangesOf('market.coverage', 'true')
  return { stored, covered, gaps: await rangesOf('market.gaps', "state <> 'repaired'") }
}

/** Time passes between fills, a little or not at all; hundreds of them may share a millisecond. */
const steps = fc
  .array(
    fc.oneof(
      fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 120 }),
      fc.integer({ min: 1, max: 450 }).map((count) => Array.from({ length: count }, (_, i) => (i === 0 ? 1 : 0))),
    ),
    { minLength: 1, maxLength: 14, size: 'max' },
  )
  .map((parts) => parts.flat().slice(0, 1_500))

/** So many fills in each of neighbouring milliseconds. */
const neighbours = (counts: readonly number[]) =>
  counts.flatMap((count, index) => Array.from({ length: count }, () => 1_000_000 + index))

const market = fc
  .record({
    steps,
    polls: fc.array(fc.integer({ min: 0, max: 220 }), { minLength: 1, maxLength: 16, size: 'max' }),
  })
  .map(({ steps: drawn, polls }): Market => {
    let time = 1_000_000
    const times = drawn.map((step) => (time += step))
    let happened = 0
    const pollAfter = polls.map((more) => (happened = Math.min(times.length, happened + more)))
    return { times, pollAfter }
  })
  // Responses that adjoin without sharing a fill cannot be told from responses with a gap between them.
  .filter(({ pollAfter }) =>
    pollAfter.every((happened, poll) => happened - (pollAfter[poll - 1] ?? 0) !== fillsPerPage),
  )

/** The times of the oldest and the newest fill of a response. */
const edgesOfPage = (times: readonly number[], happened: number) => [
  times[Math.max(0, happened - fillsPerPage)] ?? 0,
  times[happened - 1] ?? 0,
]

const lies = (time: number | undefined, { from, to }: TimeRange) => from <= (time ?? 0) && (time ?? 0) < to

describe('judging fills', () => {
  test('what is called proven is stored without exception, however late it is asked for', async () => {
    await fc.assert(
      fc.asyncProperty(market, fc.constantFrom(0, 300, 1_000, 60_000), async (drawn, askedAfterMs) => {
        const { stored, covered } = await watch(drawn, { askedAfterMs })
        for (const [place, time] of drawn.times.entries()) {
          if (covered.some((range) => lies(time, range))) expect(stored.has(place)).toBe(true)
        }
      }),
      { numRuns: 30 },
    )
  })

  test('every fill that was missed after the first one lies in a gap, and no gap is without a missed fill', async () => {
    await fc.assert(
      fc.asyncProperty(market, fc.constantFrom(0, 60_000), async (drawn, askedAfterMs) => {
        const { times } = drawn
        const { stored, gaps } = await watch(drawn, { askedAfterMs })
        // More fills than a response shows may have happened in its first millisecond.
        const first = times[Math.min(...stored)] ?? Infinity
        const last = Math.max(...stored)
        const missed = [...times.keys()].filter(
          (place) => (times[place] ?? 0) >= first && place < last && !stored.has(place),
        )
        for (const place of missed) {
          if ((times[place] ?? 0) > first) expect(gaps.some((gap) => lies(times[place], gap))).toBe(true)
        }
        // A millisecond that two responses share only at their edges is not proven, nor are two such neighbours.
        const edges = new Set(drawn.pollAfter.flatMap((happened) => edgesOfPage(times, happened)))
        // A response that shares only such a millisecond settles nothing of the one before, whose time joins that gap.
        for (const [poll, happened] of drawn.pollAfter.entries()) {
          const [from = 0, newest = 0] = edgesOfPage(times, drawn.pollAfter[poll - 1] ?? 0)
          if (askedAfterMs === 0 && edgesOfPage(times, happened)[0] === newest)
            for (let moment = from; moment < newest; moment++) edges.add(moment)
        }
        const isOfEdges = ({ from, to }: TimeRange) => {
          for (let moment = from; moment < to; moment++) if (!edges.has(moment)) return false
          return true
        }
        for (const gap of gaps) {
          const { from, to } = gap
          const begun = { from: from === first + 1 ? first : from, to }
          expect(isOfEdges(gap) || missed.some((place) => lies(times[place], begun))).toBe(true)
        }
      }),
      {
        numRuns: 40,
        examples: [
          // Two neighbouring milliseconds in which one response ends and the next begins.
          [{ times: neighbours([2, 51, 49, 1, 50]), pollAfter: [53, 102, 153, 153] }, 60_000],
          // Responses of two neighbouring milliseconds, the newest of which the one before has shown.
          [{ times: neighbours([1, 1, 44, 157]), pollAfter: [46, 102, 102, 203] }, 0],
          // A response that begins in the crowded millisecond in which the one before ends.
          [{ times: neighbours([1, 1, 99, 0, 1]), pollAfter: [95, 102] }, 0],
        ],
      },
    )
  })

  test('responses that are stored again, or late, leave the same proof and the same gaps', async () => {
    await fc.assert(
      fc.asyncProperty(market, fc.nat(), fc.nat(), async (drawn, at, length) => {
        const plain = await watch(drawn)
        const from = at % drawn.pollAfter.length
        const again = await watch(drawn, {
          order: (polls) => [...polls, ...polls.slice(from, from + (length % 4) + 1)],
        })
        expect(again.covered).toEqual(plain.covered)
        expect(normalized([...again.gaps])).toEqual(normalized([...plain.gaps]))
      }),
      { numRuns: 20 },
    )
  })

  test('responses of one millisecond each leave a gap between them, whichever comes first', async () => {
    const times = [1_001, 1_501, 2_001].flatMap((time) => Array.from({ length: fillsPerPage }, () => time))
    const inOrder = await watch({ times, pollAfter: [100, 300] })
    expect(inOrder).toMatchObject({ covered: [], gaps: [{ from: 1_002, to: 2_002 }] })
    expect(await watch({ times, pollAfter: [100, 300] }, { order: (polls) => polls.toReversed() })).toEqual(inOrder)
  })

  test('responses of one millisecond that are stored again find their own fills among all of it', async () => {
    const sweep = { times: Array.from({ length: 213 }, () => 1_000_001), pollAfter: [91, 93, 115, 149, 200, 213] }
    const plain = await watch(sweep)
    expect(plain.gaps).toEqual([])
    const again = await watch(sweep, { order: (polls) => [...polls, ...polls.slice(1, 5)] })
    expect(again).toEqual(plain)
  })

  test('responses that are stored in one call leave what they leave one after the other', async () => {
    await fc.assert(
      fc.asyncProperty(market, market, fc.constantFrom(0, 60_000), async (drawn, beside, askedAfterMs) => {
        const plain = await watch(drawn, { askedAfterMs })
        expect(await watch(drawn, { beside, askedAfterMs })).toEqual(plain)
      }),
      { numRuns: 20 },
    )
  })

  test('what another recorder had spooled fills the gap that its successor found', async () => {
    const times = Array.from({ length: 400 }, (_, index) => 1_000 + index * 10)
    const inOrder = await watch({ times, pollAfter: [100, 190, 280, 370] })
    // The second and third response come last.
    const order = ([a = 0, b = 0, c = 0, d = 0]: number[]) => [a, d, b, c]
    const late = await watch({ times, pollAfter: [100, 190, 280, 370] }, { order })
    expect((await watch({ times, pollAfter: [100, 370] })).gaps).toHaveLength(1)
    expect(late.gaps).toEqual([])
    expect(late.covered).toEqual(inOrder.covered)
  })

  test('an empty response proves nothing of the time before the first fills', async () => {
    const quiet = Array.from({ length: 150 }, (_, index) => 5_000 + index * 10)
    const first = await watch({ times: quiet, pollAfter: [0, 50] })
    expect(first).toMatchObject({ covered: [{ from: 5_001, to: 5_490 }], gaps: [] })
    const full = await watch({ times: quiet, pollAfter: [0, 150] })
    expect(full).toMatchObject({ covered: [{ from: 5_501, to: 6_490 }], gaps: [] })
  })
})
