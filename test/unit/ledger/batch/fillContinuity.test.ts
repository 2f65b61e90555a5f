import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { judgeFills } from '../../../../src/ledger/batch/fillContinuity.js'
import type { Batch } from '../../../../src/ledger/batch/batch.js'
import { join, type JoinedBatch } from '../../../../src/ledger/batch/joinBatches.js'
import { type Fill, fillsPerPage } from '../../../../src/market/fill.js'
import type { TimeRange } from '../../../../src/market/timeRange.js'
import { aFill } from '../../../support/marketRows.js'

/** What the database does with proven ranges. */
function union(ranges: readonly TimeRange[]): TimeRange[] {
  const joined: { from: number; to: number }[] = []
  for (const range of ranges.toSorted((a, b) => a.from - b.from)) {
    const last = joined.at(-1)
    if (last !== undefined && range.from <= last.to) last.to = Math.max(last.to, range.to)
    else joined.push({ ...range })
  }
  return joined
}

function without(gaps: readonly TimeRange[], filled: TimeRange): TimeRange[] {
  return gaps.flatMap(({ from, to }) => [
    ...(from < Math.min(to, filled.from) ? [{ from, to: Math.min(to, filled.from) }] : []),
    ...(Math.max(from, filled.to) < to ? [{ from: Math.max(from, filled.to), to }] : []),
  ])
}

type Runs = readonly (readonly number[])[]

/** A market with fills at the given times, asked when the given numbers of fills have happened, stored in `order`. */
function watch(
  times: readonly number[],
  pollAfter: readonly number[],
  order: (polls: number[]) => number[] = (p) => p,
  combine: (answers: Runs) => Runs = (answers) => answers,
) {
  const stored = new Set<number>()
  let covered: TimeRange[] = []
  let gaps: TimeRange[] = []
  const answers = order([...pollAfter]).map((happened) =>
    [...times.keys()].slice(Math.max(0, happened - fillsPerPage), happened),
  )
  for (const indexes of combine(answers)) {
    const shared = indexes.filter((index) => stored.has(index)).map((index) => times[index] ?? 0)
    const oldest = times[indexes[0] ?? -1] ?? -Infinity
    const olderTimes = [...stored].map((index) => times[index] ?? 0).filter((time) => time <= oldest)
    const known = {
      covered,
      gapEnds: gaps.map(({ to }) => to).toSorted((a, b) => a - b),
      storedUntil: shared.length > 0 || olderTimes.length === 0 ? null : Math.max(...olderTimes),
    }
    const { proven, gap } = judgeFills(known, {
      times:
        indexes.length === 0 ? null : { oldest: times[indexes[0] ?? 0] ?? 0, newest: times[indexes.at(-1) ?? 0] ?? 0 },
      isFull: indexes.length >= fillsPerPage,
      sharedFrom: shared[0] ?? null,
      requestTime: times[indexes.at(-1) ?? -1] ?? (times[0] ?? 0) - 1,
    })
    for (const index of indexes) stored.add(index)
    if (proven !== null) {
      covered = union([...covered, proven])
      gaps = without(gaps, proven)
    }
    if (gap !== null && !gaps.some(({ from, to }) => from === gap.from && to === gap.to)) gaps.push(gap)
  }
  return { stored, covered, gaps }
}

/** What a replay makes of answers of one instrument. */
function joinedRuns(times: readonly number[], answers: Runs): Runs {
  const joined: JoinedBatch[] = []
  for (const indexes of answers) {
    const rows = indexes.map((index) => aFill({ ts: times[index] ?? 0, execId: String(index) }))
    const nothing = { rejected: [], proven: [], gaps: [], isPart: false }
    const target = { category: 'SPOT', symbol: 'BTCUSDT' }
    const batch: Batch = { stream: 'fills', target, requestTime: 0, receivedAt: 0, rows, ...nothing }
    const last = joined.at(-1)
    const longer = last && join(last, batch)
    if (longer) joined.splice(-1, 1, longer)
    else joined.push({ whole: batch, parts: [batch] })
  }
  return joined.map(({ whole }) => (whole.rows as readonly Fill[]).map(({ execId }) => Number(execId)))
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

const market = fc
  .record({
    steps,
    polls: fc.array(fc.integer({ min: 0, max: 220 }), { minLength: 1, maxLength: 16, size: 'max' }),
  })
  .map(({ steps, polls }) => {
    let time = 1_000_000
    const times = steps.map((step) => (time += step))
    let happened = 0
    const pollAfter = polls.map((more) => (happened = Math.min(times.length, happened + more)))
    return { times, pollAfter }
  })
  // Answers that adjoin without sharing a fill cannot be told from answers with a gap between them.
  .filter(({ pollAfter }) =>
    pollAfter.every((happened, poll) => happened - (pollAfter[poll - 1] ?? 0) !== fillsPerPage),
  )

const knownFrom = (covered: readonly TimeRange[]) => ({ covered, gapEnds: [], storedUntil: null })

const lies = (time: number | undefined, { from, to }: TimeRange) => from <= (time ?? 0) && (time ?? 0) < to

describe('judging fills', () => {
  test('what is called proven is stored without exception', () => {
    fc.assert(
      fc.property(market, ({ times, pollAfter }) => {
        const { stored, covered } = watch(times, pollAfter)
        for (const [index, time] of times.entries()) {
          if (covered.some((range) => lies(time, range))) expect(stored.has(index)).toBe(true)
        }
      }),
    )
  })

  test('every fill that was missed after the first response lies in a gap, and no gap is without a missed fill', () => {
    fc.assert(
      fc.property(market, ({ times, pollAfter }) => {
        const { stored, gaps } = watch(times, pollAfter)
        // An empty answer is a beginning, too: whatever happens after it is missed if it is not seen.
        const first = pollAfter[0] === 0 ? -1 : Math.min(...stored)
        const last = Math.max(...stored)
        const missed = [...times.keys()].filter((index) => index > first && index < last && !stored.has(index))
        for (const index of missed) expect(gaps.some((gap) => lies(times[index], gap))).toBe(true)
        for (const gap of gaps) expect(missed.some((index) => lies(times[index], gap))).toBe(true)
      }),
      { numRuns: 500 },
    )
  })

  test('answers that are stored again, or late, leave the same proof and the same gaps', () => {
    fc.assert(
      fc.property(market, fc.nat(), fc.nat(), ({ times, pollAfter }, at, length) => {
        const plain = watch(times, pollAfter)
        const from = at % pollAfter.length
        const again = watch(times, pollAfter, (polls) => [...polls, ...polls.slice(from, from + (length % 4) + 1)])
        expect(again.covered).toEqual(plain.covered)
        expect(union(again.gaps)).toEqual(union(plain.gaps))
      }),
    )
  })

  test('answers that are joined before they are judged prove no less, and leave the same gaps', () => {
    let joinedOnce = 0
    fc.assert(
      fc.property(market, ({ times, pollAfter }) => {
        const plain = watch(times, pollAfter)
        const joined = watch(times, pollAfter, undefined, (answers) => {
          const runs = joinedRuns(times, answers)
          if (runs.length < answers.length) joinedOnce++
          return runs
        })
        expect(joined.stored).toEqual(plain.stored)
        expect(joined.gaps).toEqual(plain.gaps)
        // A longer first run may prove a millisecond more: alone, its first answer had no whole one.
        expect(union([...joined.covered, ...plain.covered])).toEqual(joined.covered)
        const [first] = joined.covered
        for (const [index, time] of times.entries()) {
          if (first !== undefined && lies(time, first)) expect(joined.stored.has(index)).toBe(true)
        }
      }),
      { numRuns: 500 },
    )
    expect(joinedOnce).toBeGreaterThan(10)
  })

  test('what another recorder had spooled fills the gap that its successor found', () => {
    const times = Array.from({ length: 400 }, (_, index) => 1_000 + index * 10)
    const inOrder = watch(times, [100, 190, 280, 370])
    // The second and third answer come last.
    const late = watch(times, [100, 190, 280, 370], ([a = 0, b = 0, c = 0, d = 0]) => [a, d, b, c])
    expect(watch(times, [100, 370]).gaps).toHaveLength(1)
    expect(late.gaps).toEqual([])
    expect(late.covered).toEqual(inOrder.covered)
  })

  test('an instrument that never traded follows on from its empty answer', () => {
    const empty = judgeFills(knownFrom([]), { times: null, isFull: false, sharedFrom: null, requestTime: 1_000 })
    expect(empty).toEqual({ proven: { from: 999, to: 1_000 }, gap: null })
    const covered = empty.proven === null ? [] : [empty.proven]
    const first = { times: { oldest: 5_000, newest: 6_000 }, sharedFrom: null, requestTime: 6_000 }
    expect(judgeFills(knownFrom(covered), { ...first, isFull: false })).toEqual({
      proven: { from: 1_000, to: 6_000 },
      gap: null,
    })
    expect(judgeFills(knownFrom(covered), { ...first, isFull: true })).toEqual({
      proven: { from: 5_001, to: 6_000 },
      gap: { from: 1_000, to: 5_001 },
    })
  })

  test('an empty answer where something is stored proves nothing', () => {
    const page = { times: null, isFull: false, sharedFrom: null, requestTime: 9_000 }
    expect(judgeFills(knownFrom([{ from: 1, to: 5 }]), page)).toEqual({ proven: null, gap: null })
  })
})
