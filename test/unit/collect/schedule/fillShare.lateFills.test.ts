import { expect, test } from 'vitest'
import { lateFills } from '../../../../src/collect/schedule/fillShare.js'

const options = { nowMs: 1_000_000, maxPollMs: 600_000, fillsPerPage: 100, unseen: () => 100 }
const ago = (ms: number, perMs: number | null, empty = 0) =>
  ['USDT-FUTURES BTCUSDT', { atMs: options.nowMs - ms, perMs, empty }] as const

test('an instrument is late once more has happened than an answer shows, or once the longest wait is over', () => {
  const perSecond = 1 / 1000
  expect(lateFills([ago(120_000, perSecond)], options)).toEqual({ lateTargets: 0, quietTargets: 0 })
  expect(lateFills([ago(131_000, perSecond)], options).lateTargets).toBe(1)
  expect(lateFills([ago(620_000, perSecond / 1000)], options).lateTargets).toBe(0)
  expect(lateFills([ago(631_000, perSecond / 1000)], options).lateTargets).toBe(1)
})

test('one whose responses bring nothing new may go unasked for as long as the schedule lets it', () => {
  const rare = 1 / 10_000_000
  expect(lateFills([ago(1_229_000, rare, 1)], options).lateTargets).toBe(0)
  expect(lateFills([ago(1_231_000, rare, 1)], options).lateTargets).toBe(1)
})

test('one that was never answered is late after the longest wait; one that does not trade never is', () => {
  expect(lateFills([ago(631_000, null), ago(500_000, null)], options).lateTargets).toBe(1)
  expect(lateFills([ago(900_000, 0)], options)).toEqual({ lateTargets: 0, quietTargets: 1 })
})

test('a burst that has filled a page makes no instrument late while the tickers since then tell of few fills', () => {
  const burst = ago(505_000, 100 / 474_000, 3)
  expect(lateFills([burst], { ...options, unseen: () => 2.3 }).lateTargets).toBe(0)
  expect(lateFills([burst], { ...options, unseen: () => 48 }).lateTargets).toBe(0)
  expect(lateFills([burst], { ...options, unseen: () => 100 }).lateTargets).toBe(1)
  // Whatever they tell, the longest wait holds.
  expect(lateFills([ago(4_831_000, 100 / 474_000, 3)], { ...options, unseen: () => 0 }).lateTargets).toBe(1)
})
