import { expect, test } from 'vitest'
import type { PlannedFault } from '../../simulation/faultPlan.js'
import { watchSenders } from '../../simulation/sendersWatch.js'
import { mayBothSend } from '../../simulation/unknownStandby.js'

test('two senders at once are told of, one after the other are not', () => {
  const gone = { name: 'gone', isLeaving: () => true }
  const [one, two] = ['one', 'two'].map((name) => ({ name, isLeaving: () => false })) as [typeof gone, typeof gone]
  const watch = watchSenders()
  expect(watch.departs(gone, 0)).toBeNull()
  expect(watch.departs(one, 10)).toBeNull()
  expect(watch.departs(one, 20)).toBeNull()
  expect(watch.departs(two, 320)).toBe('two sends 300 ms after one, which may send, too')
  expect(watch.departs(two, 800)).toBeNull()
  expect(watch.departs(one, 1_300)).toBeNull()
  expect(watch.departs(two, 1_301)).not.toBeNull()
})

const silence: PlannedFault = { atMs: 100_000, forMs: 20_000, what: 'database silent', size: 0.5, machine: 0 }
const longer: PlannedFault = { ...silence, atMs: 119_000, forMs: 30_000, what: 'database half open' }
const outage = (atMs: number, what: PlannedFault['what'] = 'database severed'): PlannedFault => ({
  atMs,
  forMs: 1_000,
  what,
  size: 0.5,
  machine: 1,
})

test.each([
  { what: 'one that waited before is known', faults: [silence], startedMs: 50_000, nowMs: 110_000, isExcused: false },
  {
    what: 'one that begins to wait then is not',
    faults: [silence],
    startedMs: 105_000,
    nowMs: 110_000,
    isExcused: true,
  },
  {
    what: 'nor one without its database',
    faults: [silence, outage(99_000)],
    startedMs: 0,
    nowMs: 110_000,
    isExcused: true,
  },
  {
    what: 'one that lost it long ago is',
    faults: [silence, outage(90_000)],
    startedMs: 0,
    nowMs: 110_000,
    isExcused: false,
  },
  {
    what: 'so it is with a disk',
    faults: [silence, outage(99_000, 'disk full')],
    startedMs: 0,
    nowMs: 110_000,
    isExcused: false,
  },
  {
    what: 'nor while the silence goes on',
    faults: [silence, longer],
    startedMs: 105_000,
    nowMs: 145_000,
    isExcused: true,
  },
  { what: 'later they know', faults: [silence], startedMs: 105_000, nowMs: 125_000, isExcused: false },
  {
    what: 'a refusal says who may send',
    faults: [{ ...silence, what: 'database refused' as const }],
    startedMs: 50_000,
    nowMs: 110_000,
    isExcused: false,
  },
  {
    what: 'one that is started without the database goes by what it knew',
    faults: [{ ...silence, what: 'database refused' as const }],
    startedMs: 105_000,
    nowMs: 110_000,
    isExcused: true,
  },
])('$what', ({ faults, startedMs, nowMs, isExcused }) => {
  expect(mayBothSend(faults, [0, startedMs], nowMs, 1_000)).toBe(isExcused)
})
