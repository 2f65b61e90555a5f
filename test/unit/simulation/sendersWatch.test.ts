import { expect, test } from 'vitest'
import type { RunQuery } from '../../../src/db/database.js'
import { lookAtRow, renewRow, takeRow } from '../../../src/lease/leaseRow.js'
import type { PlannedFault } from '../../simulation/faultPlan.js'
import { LeaseKnowledge, type Presence } from '../../simulation/leaseKnowledge.js'
import { watchSenders } from '../../simulation/sendersWatch.js'
import { mayBothSend } from '../../simulation/unknownStandby.js'

test('two senders at once are told of, one after the other are not', () => {
  const hasHadRight = () => true
  const gone = { name: 'gone', isLeaving: () => true, hasHadRight }
  const [one, two] = ['one', 'two'].map((name) => ({ name, isLeaving: () => false, hasHadRight })) as [
    typeof gone,
    typeof gone,
  ]
  const watch = watchSenders()
  expect(watch.departs(gone, 0)).toBeNull()
  expect(watch.departs(one, 10)).toBeNull()
  expect(watch.departs(one, 20)).toBeNull()
  expect(watch.departs(two, 320)).toBe('two sends 300 ms after one, which may send, too')
  expect(watch.departs(two, 800)).toBeNull()
  expect(watch.departs(one, 1_300)).toBeNull()
  expect(watch.departs(two, 1_301)).not.toBeNull()
})

test('a sender is told of that the database never gave the right', () => {
  const sender = { name: 'one', isLeaving: () => false, hasHadRight: () => false }
  expect(watchSenders().departs(sender, 0)).toBe('one sends, and was never given the right')
})

const silence: PlannedFault = { atMs: 100_000, forMs: 20_000, what: 'database silent', size: 0.5, machine: 0 }
const longer: PlannedFault = { ...silence, atMs: 119_000, forMs: 30_000, what: 'database slow' }
const refusal: PlannedFault = { ...silence, what: 'database refused', machine: 1 }
const later: PlannedFault = { ...refusal, atMs: 118_000, machine: 0 }

/** Has been the owner from the beginning, and nobody waited when it last looked. */
const owner: Presence = { startedMs: 0, firstHeardMs: 50, visibleSinceMs: 100, aloneUntilMs: Infinity }
/** Has waited from the beginning. */
const waiting: Presence = { startedMs: 0, firstHeardMs: 50, visibleSinceMs: 200, aloneUntilMs: -Infinity }

test.each([
  { what: 'one that waited before is known', other: waiting, isExcused: false },
  { what: 'one that begins to wait then is not', other: { ...waiting, visibleSinceMs: 105_000 }, isExcused: true },
  { what: 'nor one that began just before', other: { ...waiting, visibleSinceMs: 99_000 }, isExcused: true },
  {
    what: 'nor one that was started long before and comes to the database only then',
    other: { ...waiting, startedMs: 50_000, visibleSinceMs: 108_000 },
    isExcused: true,
  },
  { what: 'one that came back long before is', other: { ...waiting, visibleSinceMs: 90_000 }, isExcused: false },
  {
    what: 'an owner that was told of another is not excused',
    knows: { ...owner, aloneUntilMs: 99_500 },
    other: { ...waiting, visibleSinceMs: 105_000 },
    isExcused: false,
  },
  {
    what: 'it may be told in the window',
    knows: { ...owner, aloneUntilMs: 109_500 },
    other: { ...waiting, visibleSinceMs: 105_000 },
    isExcused: true,
  },
  {
    what: 'an owner that could look is not excused',
    faults: [{ ...silence, machine: 1 }],
    other: { ...waiting, visibleSinceMs: 105_000 },
    isExcused: false,
  },
  {
    what: 'one that began to wait then may be unknown while the silence goes on',
    faults: [silence, longer],
    other: { ...waiting, visibleSinceMs: 105_000 },
    nowMs: 145_000,
    isExcused: true,
  },
  {
    what: 'later the owner knows',
    other: { ...waiting, visibleSinceMs: 105_000 },
    nowMs: 125_000,
    isExcused: false,
  },
  {
    what: 'after a refusal for all, the one that is back first is unknown to an owner that then gets no response',
    faults: [
      { ...refusal, atMs: 80_000, forMs: 25_000 },
      { ...silence, atMs: 98_000 },
    ],
    other: { ...waiting, visibleSinceMs: 105_200 },
    isExcused: true,
  },
  { what: 'a refusal says who may send', faults: [refusal], other: waiting, isExcused: false },
  {
    what: 'one that is started without the database goes by what it knew',
    faults: [refusal],
    other: { ...waiting, startedMs: 105_000, firstHeardMs: undefined },
    isExcused: true,
  },
  {
    what: 'also one that was started before the refusals and was told nothing until then',
    faults: [refusal],
    other: { ...waiting, startedMs: 90_000, firstHeardMs: undefined },
    isExcused: true,
  },
  {
    what: 'also in the next of two outages without a pause',
    faults: [refusal, later],
    other: { ...waiting, startedMs: 105_000, firstHeardMs: undefined },
    nowMs: 130_000,
    isExcused: true,
  },
  {
    what: 'also after it has crashed and begun again, for as long as the window has what it sent',
    faults: [refusal],
    other: {
      ...waiting,
      startedMs: 120_500,
      firstHeardMs: 120_600,
      before: { startedMs: 105_000, firstHeardMs: 120_100 },
    },
    nowMs: 121_400,
    isExcused: true,
  },
  {
    what: 'when the database is back it asks',
    faults: [refusal, { ...later, atMs: 128_000 }],
    other: { ...waiting, startedMs: 105_000, firstHeardMs: 121_000 },
    nowMs: 130_000,
    isExcused: false,
  },
])('$what', ({ faults = [silence], knows = owner, other, nowMs = 110_000, isExcused }) => {
  expect(mayBothSend(faults, [knows, other], nowMs, 1_000)).toBe(isExcused)
})

const me = { egress: 'address', owner: 'me', place: 'here', yieldsToRecorders: false }
const part = { fleet: null, weight: null, listedFleet: null, serviceTime: null }

/** What a recorder hears when the functions of its lease ask, and the database says this. */
async function hearing(
  knowledge: LeaseKnowledge,
  ask: (run: RunQuery) => Promise<unknown>,
  rows: Record<string, unknown>[],
  nowMs: number,
) {
  await ask(async (text, values) => {
    knowledge.hears({ statement: { text, values }, value: { rows } }, nowMs)
    return { rows }
  })
}

test('what a recorder knows of others follows from what its own questions brought', async () => {
  const knowledge = new LeaseKnowledge('address')
  const nothing = { startedMs: undefined, firstHeardMs: undefined, visibleSinceMs: undefined }
  expect(knowledge.presence).toEqual({ ...nothing, aloneUntilMs: -Infinity })
  knowledge.begins(5)
  await hearing(knowledge, (run) => takeRow(run, me, null), [], 10)
  expect(knowledge.presence).toEqual({ ...nothing, startedMs: 5, firstHeardMs: 10, aloneUntilMs: -Infinity })
  await hearing(knowledge, (run) => lookAtRow(run, me), [{ stamp: 'other' }], 20)
  expect(knowledge.presence).toMatchObject({ visibleSinceMs: 20, aloneUntilMs: -Infinity })
  await hearing(knowledge, (run) => takeRow(run, me, 'other'), [{ epoch: 2, waited: true }], 600)
  await hearing(knowledge, (run) => renewRow(run, me, '2', part), [{ waited: false, recorders: [] }], 1_100)
  expect(knowledge.presence).toEqual({ startedMs: 5, firstHeardMs: 10, visibleSinceMs: 20, aloneUntilMs: Infinity })
  // Of other addresses nothing is learned.
  await hearing(knowledge, (run) => lookAtRow(run, { ...me, egress: 'elsewhere' }), [{ stamp: 'other' }], 1_200)
  expect(knowledge.presence.aloneUntilMs).toBe(Infinity)
  await hearing(knowledge, (run) => renewRow(run, me, '2', part), [{ waited: true, recorders: [] }], 1_300)
  await hearing(knowledge, (run) => renewRow(run, me, '2', part), [], 1_400)
  expect(knowledge.presence).toMatchObject({ visibleSinceMs: 20, aloneUntilMs: 1_300 })
  // The others have seen nothing of it for longer than a lease.
  await hearing(knowledge, (run) => lookAtRow(run, me), [{ stamp: 'other' }], 9_000)
  expect(knowledge.presence.visibleSinceMs).toBe(9_000)
  knowledge.begins(9_500)
  const before = { startedMs: 5, firstHeardMs: 10 }
  expect(knowledge.presence).toEqual({ ...nothing, startedMs: 9_500, aloneUntilMs: 1_300, before })
})
