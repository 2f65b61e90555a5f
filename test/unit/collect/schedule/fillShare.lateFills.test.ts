import { expect, test } from 'vitest'
import { type FillsSeen, lateFills } from '../../../../src/collect/schedule/fillShare.js'

const nowMs = 1_000_000
const count = (...seen: readonly (FillsSeen & { readonly unseen: number })[]) =>
  lateFills(seen, nowMs, 600_000, ({ unseen }) => unseen)
const ago = (ms: number, perMs: number | null, empty = 0, unseen = 100) => ({
  sinceMs: nowMs - ms,
  respondedMs: perMs === null ? null : nowMs - ms,
  perMs,
  empty,
  unseen,
})

test('an instrument is late once more has happened than an answer shows, or once the longest wait is over', () => {
  const perSecond = 1 / 1000
  expect(count(ago(120_000, perSecond))).toEqual({ lateTargets: 0, quietTargets: 0 })
  expect(count(ago(131_000, perSecond)).lateTargets).toBe(1)
  expect(count(ago(620_000, perSecond / 1000)).lateTargets).toBe(0)
  expect(count(ago(631_000, perSecond / 1000)).lateTargets).toBe(1)
})

test('one whose responses bring nothing new may go unasked for as long as the schedule lets it', () => {
  const rare = 1 / 10_000_000
  expect(count(ago(1_229_000, rare, 1)).lateTargets).toBe(0)
  expect(count(ago(1_231_000, rare, 1)).lateTargets).toBe(1)
})

test('one that was never answered is late after the longest wait; one that does not trade never is', () => {
  expect(count(ago(631_000, null), ago(500_000, null)).lateTargets).toBe(1)
  expect(count(ago(900_000, 0))).toEqual({ lateTargets: 0, quietTargets: 1 })
})

test('a burst that has filled a page makes no instrument late while the tickers since then tell of few fills', () => {
  const burst = (unseen: number) => ago(505_000, 100 / 474_000, 3, unseen)
  expect(count(burst(2.3)).lateTargets).toBe(0)
  expect(count(burst(48)).lateTargets).toBe(0)
  expect(count(burst(100)).lateTargets).toBe(1)
  // Whatever they tell, the longest wait holds.
  expect(count(ago(4_831_000, 100 / 474_000, 3, 0)).lateTargets).toBe(1)
})
