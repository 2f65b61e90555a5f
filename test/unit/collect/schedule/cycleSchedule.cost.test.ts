import { Session } from 'node:inspector/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { CycleSchedule } from '../../../../src/collect/schedule/cycleSchedule.js'

const session = new Session()
beforeAll(async () => {
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
})
afterAll(() => session.disconnect())

/** Counts how often the parts of our modules for collecting run: each function, branch and turn of a loop. */
async function stepsOf(work: () => void): Promise<number> {
  await session.post('Profiler.takePreciseCoverage')
  work()
  const { result } = await session.post('Profiler.takePreciseCoverage')
  const own = result.filter(({ url }) => url.includes('/src/collect/'))
  return own
    .flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges.map(({ count }) => count)))
    .reduce((sum, count) => sum + count, 0)
}

/** Steps for thousand requests that end within a second, of so many targets that are all due. */
async function stepsFor(targets: number, end: (schedule: CycleSchedule<number>, target: number) => void) {
  // Turns of loops are counted only in modules that are loaded after the counting began.
  const loaded = await import('../../../../src/collect/schedule/cycleSchedule.js')
  const schedule = new loaded.CycleSchedule<number>({
    keyOf: String,
    groupOf: () => 'all',
    phaseOf: (target) => target / targets,
    everyMs: 10_000,
    isSilenceProven: false,
  })
  schedule.retarget(
    Array.from({ length: targets }, (_, target) => target),
    targets,
    0,
  )
  const due = schedule.take(0)
  expect(due).toHaveLength(targets)
  return stepsOf(() => {
    for (const target of due.slice(0, 1_000)) {
      end(schedule, target)
      schedule.nextMs(100)
      schedule.take(100)
    }
  })
}

const now = { ms: 100, wall: 100 }
test.each([
  ['a response', (schedule: CycleSchedule<number>, target: number) => schedule.responded(target, null, null, now)],
  ['a failure', (schedule: CycleSchedule<number>, target: number) => schedule.failed(target, now)],
])('what %s costs does not grow with the number of targets', async (_what, end) => {
  const few = await stepsFor(1_000, end)
  const many = await stepsFor(20_000, end)
  expect(few).toBeGreaterThan(1_000)
  expect(many).toBeLessThan(2 * few)
})
