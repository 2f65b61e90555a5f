import { expect, test } from 'vitest'
import { createEstimator } from '../../../src/history/progress.js'

function looks() {
  let atMs = 0
  const estimate = createEstimator({ monotonicMs: () => atMs })
  return (seconds: number, left: number) => {
    atMs = seconds * 1000
    return estimate(left)
  }
}

test('the wait for a beginning does not count', () => {
  const look = looks()
  for (let minute = 0; minute <= 60; minute++) expect(look(minute * 60, 100_000)).toBeNull()
  look(3_605, 99_000)
  expect(look(3_610, 98_000)).toEqual({ perSecond: 200, etaMs: 490_000 })
})

test('the speed is that of the last two minutes', () => {
  const look = looks()
  look(0, 100_000)
  for (let second = 1; second <= 60; second++) look(second, 100_000 - second)
  for (let second = 61; second <= 300; second++) look(second, 99_940 - (second - 60) * 100)
  expect(look(301, 75_840)?.perSecond).toBeCloseTo(100, 0)
})

test('nothing is told after a moment, or while nothing comes', () => {
  const look = looks()
  look(0, 1_000)
  expect(look(1, 900)).toBeNull()
  expect(look(10, 900)?.etaMs).toBe(90_000)
  expect(look(400, 900)).toBeNull()
})
