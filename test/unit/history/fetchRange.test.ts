import { describe, expect, it } from 'vitest'
import { fetchRange } from '../../../src/history/fetchRange.js'
import type { TimeRange } from '../../../src/market/timeRange.js'
import type { TimeMs } from '../../../src/market/values.js'
import { dayMs, fill, minuteMs, now, openings, plain, reachOf } from './fetchFromModel.js'
import type { Behaviour } from './pageModel.js'

function minutes(days: number): Behaviour {
  return { ...plain, lengthMs: minuteMs, truth: openings(now - days * dayMs, now, minuteMs) }
}

describe('filling a range of candles', () => {
  it('gets every candle with hardly more requests than pages', async () => {
    const behaviour = minutes(120)
    const range = { from: now - 120 * dayMs, to: now }
    const { received, requests, outcome } = await fill(behaviour, [range], range.from)
    expect(received.size).toBe(behaviour.truth.length)
    expect(outcome).toMatchObject({ empty: [], silent: [] })
    const least = Math.ceil((30 * 1440) / 1000) + Math.ceil((90 * 1440) / 100)
    expect(requests.length).toBeLessThanOrEqual(least * 1.01)
  })

  it('learns that ends are inclusive instead of losing a candle of each page', async () => {
    const behaviour = { ...minutes(60), historyEndInclusive: true }
    const range = { from: now - 60 * dayMs, to: now }
    const { received, requests } = await fill(behaviour, [range], range.from)
    expect(received.size).toBeGreaterThanOrEqual(behaviour.truth.length)
    const least = Math.ceil((30 * 1440) / 1000) + Math.ceil((30 * 1440) / 100)
    expect(requests.length).toBeLessThanOrEqual(least * 1.02)
  })

  it('does not try candles again where others of its kind have shown that it does not reach', async () => {
    const { reach } = await fill(minutes(40), [{ from: now - 40 * dayMs, to: now }], now - 40 * dayMs)
    const again = await fill(minutes(40), [{ from: now - 40 * dayMs, to: now - 30 * dayMs }], now - 40 * dayMs, reach)
    expect(again.requests.filter(({ operation }) => operation === 'candles')).toEqual([])
    expect(again.received.size).toBe(10 * 1440)
  })

  it('finds the reach of long intervals too, and days that open at 16:00', async () => {
    const first = now - 1000 * dayMs - 8 * 3_600_000
    const truth = openings(first, now - dayMs, dayMs)
    const behaviour = { ...plain, lengthMs: dayMs, truth, reachedFrom: now - 400 * dayMs }
    const wanted = { from: now - 1000 * dayMs, to: now - dayMs }
    const { received, outcome } = await fill(behaviour, [wanted], wanted.from)
    expect(outcome.silent).toEqual([])
    expect(truth.filter((time) => time >= wanted.from && !received.has(time))).toEqual([])
  })

  it('confirms that a series begins where its candles begin', async () => {
    const behaviour = minutes(35)
    const floor = now - 300 * dayMs
    const { outcome, requests } = await fill(behaviour, [{ from: floor, to: now }], floor)
    expect(outcome).toMatchObject({ empty: [{ from: floor, to: behaviour.truth[0] }], silent: [] })
    expect(requests.length).toBeLessThan(44 + 72 + 50)
  })

  const lacks = [
    { lack: 'unclear', by: 'candles' },
    { lack: 'unclear', by: 'history-candles' },
    { lack: 'untold', by: 'history-candles' },
  ] as const
  it.each(lacks)('confirms no beginning where a page of $by is $lack', async ({ lack, by }) => {
    const behaviour = minutes(2)
    const floor = now - 4 * dayMs
    const [first = now] = behaviour.truth
    const lackOf = (operation: string, from: TimeMs) => (operation === by && from < first ? lack : 'shown')
    const { outcome } = await fill({ ...behaviour, lackOf }, [{ from: floor, to: now }], floor)
    expect(outcome).toMatchObject({ empty: [], silent: [{ from: floor, to: first }], isUnclear: true })
    // The pages above the beginning show what they lack.
    const above = (operation: string, from: TimeMs) => (operation === by && from > first + dayMs ? lack : 'shown')
    const whole = await fill({ ...behaviour, lackOf: above }, [{ from: floor, to: now }], floor)
    expect(whole.outcome).toMatchObject({ empty: [{ from: floor, to: first }], isUnclear: false })
  })

  it.each([true, false])(
    'confirms a beginning that candles tells nothing of, if the history shows it: %s',
    async (historyHoldsRecent) => {
      const behaviour = { ...minutes(2), historyHoldsRecent }
      const floor = now - 4 * dayMs
      const [first = now] = behaviour.truth
      const lackOf = (operation: string, from: TimeMs) =>
        operation === 'candles' && from < first - 2000 * minuteMs ? 'untold' : 'shown'
      const { outcome } = await fill({ ...behaviour, lackOf }, [{ from: floor, to: now }], floor)
      expect(outcome.empty).toMatchObject(historyHoldsRecent ? [{ from: floor, to: first }] : [])
    },
  )

  it('claims no emptiness where the service responds with nothing at all', async () => {
    const range = { from: now - 2 * dayMs, to: now }
    const { outcome } = await fill({ ...minutes(0), truth: [] }, [range], range.from)
    expect(outcome).toMatchObject({ empty: [], silent: [range] })
  })

  it('finds a series that ended long ago, by the longest pages that reach so far', async () => {
    const last = now - 20 * dayMs
    const truth = openings(last - 500 * minuteMs, last, minuteMs)
    const behaviour = { ...minutes(0), truth, reachedFrom: now - 25 * dayMs, historyHoldsRecent: false }
    const book = reachOf(25 * dayMs + minuteMs)
    const range = { from: last - 500 * minuteMs, to: now }
    const { received, requests } = await fill(behaviour, [range], range.from, book)
    expect([...received].toSorted((a, b) => a - b)).toEqual(truth)
    expect(requests.length).toBeLessThan(100)
  })

  it('takes no gap at the lower end of what is wanted for the beginning of the series', async () => {
    const range = { from: now - 2 * dayMs, to: now }
    const gap = { from: range.from, to: range.from + 300 * minuteMs }
    const hidden = (_operation: string, time: TimeMs) => time >= gap.from && time < gap.to
    const { outcome } = await fill({ ...minutes(4), hidden, isSilenceTold: false }, [range], range.from)
    expect(outcome).toMatchObject({ empty: [], silent: [gap] })
  })

  it('asks for a gap again by both operations, and leaves it open when it stays', async () => {
    const gap = { from: now - 3 * dayMs, to: now - 3 * dayMs + 50 * minuteMs }
    const isIn = (time: TimeMs) => time >= gap.from && time < gap.to
    const range = { from: now - 4 * dayMs, to: now }
    const hiddenFromOne = {
      ...minutes(4),
      isSilenceTold: false,
      hidden: (operation: string, time: TimeMs) => operation === 'candles' && isIn(time),
    }
    const one = await fill(hiddenFromOne, [range], range.from)
    expect(one.outcome).toMatchObject({ empty: [], silent: [] })
    expect(one.received.size).toBe(4 * 1440)
    const silent = { ...minutes(4), isSilenceTold: false, hidden: (_operation: string, time: TimeMs) => isIn(time) }
    const both = await fill(silent, [range], range.from)
    expect(both.outcome).toMatchObject({ empty: [], silent: [gap] })
    expect(both.received.size).toBe(4 * 1440 - 50)
  })

  it('does not take an operation that is empty at first for one that does not reach', async () => {
    const behaviour = { ...minutes(20), emptyAtFirst: 1 }
    const range = { from: now - 20 * dayMs, to: now }
    const { received, requests } = await fill(behaviour, [range], range.from)
    expect(received.size).toBe(20 * 1440)
    expect(requests.length).toBeLessThan(90)
  })
})

describe('when a request fails for good', () => {
  it('the filling fails with its error', async () => {
    let requests = 0
    const ask = async ({ window }: { readonly window: TimeRange }) => {
      requests++
      if (requests > 20) throw new Error(`request ${requests} failed`)
      return { openTimes: openings(window.from, window.to, minuteMs), silence: [], lack: 'shown' } as const
    }
    const range = { from: now - 50 * dayMs, to: now }
    const task = {
      lengthMs: minuteMs,
      wanted: [range],
      floor: range.from,
      oldestKnown: null,
      isSparse: false,
      isAskedBefore: false,
    }
    const context = { ask, now: () => now, sleep: () => Promise.resolve(), reach: reachOf(0) }
    await expect(fetchRange(task, context)).rejects.toThrow(/request \d+ failed/)
    expect(requests).toBe(21)
  })
})
