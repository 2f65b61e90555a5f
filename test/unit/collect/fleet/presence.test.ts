import { expect, test } from 'vitest'
import { presentMembers } from '../../../../src/collect/fleet/presence.js'

const self = { egress: 'b', weight: 6000 }
const seen = (egress: string, silentMs: number, hasSession = true) => ({
  egress,
  budget: 6000,
  place: 'somewhere',
  silentMs,
  hasSession,
})
const sight = (before: readonly string[], ...recorders: ReturnType<typeof seen>[]) => ({
  version: 3,
  members: before.map((egress) => ({ egress, weight: 6000 })),
  recorders,
})
const names = (...given: Parameters<typeof presentMembers>) => presentMembers(...given).map(({ egress }) => egress)

test('who has said something within 5 s is there, and who asks is', () => {
  expect(names(sight(['a', 'b', 'c'], seen('a', 4_900), seen('c', 5_100)), self, 60_000)).toEqual(['a', 'b'])
  expect(names(sight([]), self, 60_000)).toEqual(['b'])
})

test('who has no session with the database any more is there for half of that: one that lives has a new one by then', () => {
  const recorders = [seen('a', 2_400, false), seen('c', 2_600, false)]
  expect(names(sight(['a', 'b', 'c'], ...recorders), self, 60_000)).toEqual(['a', 'b'])
  expect(names(sight(['a', 'b', 'c'], ...recorders), self, 1_000)).toEqual(['a', 'b', 'c'])
})

test('a recorder that has just come back to the database takes nobody for gone that was there', () => {
  const afterRestart = sight(['a', 'b'], seen('a', 90_000), seen('b', 90_000), seen('x', 90_000))
  expect(names(afterRestart, self, 1_000)).toEqual(['a', 'b'])
  expect(names(afterRestart, self, 6_000)).toEqual(['b'])
})

test('who said that it ends is gone at once', () => {
  expect(names(sight(['a', 'b'], seen('b', 0)), self, 1_000)).toEqual(['b'])
})
