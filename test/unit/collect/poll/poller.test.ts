import { expect, test } from 'vitest'
import { createPoller } from '../../../../src/collect/poll/poller.js'
import { type Ending, onAbort } from '../../../../src/runtime/abort.js'
import { systemClock } from '../../../../src/runtime/clock.js'

/** A poller of targets that are due once when they are new, and whose requests last until they are told to end. */
function lasting(stopping: AbortController) {
  const ended: string[] = []
  const skipped: string[] = []
  const begun: string[] = []
  let due: string[] = []
  const poller = createPoller<string>({ clock: systemClock, signal: stopping.signal }, (wake) => {
    const strategy: ReturnType<Parameters<typeof createPoller<string>>[1]> = {
      keyOf: (target) => target,
      maxPauseMs: 1_000,
      retarget(targets) {
        due = [...targets]
        wake()
      },
      waitMs: () => (due.length > 0 ? 0 : Infinity),
      take: () => due.splice(0),
      skipped: (target) => void skipped.push(target),
      request: (target, signal: Ending) =>
        new Promise((resolve) => {
          begun.push(target)
          const end = () => {
            ended.push(target)
            resolve(false)
          }
          if (signal.aborted) end()
          else onAbort(signal, end)
        }),
    }
    return strategy
  })
  return { poller, begun, ended, skipped }
}

test('ends the waiting requests of targets that are no longer wanted, and no other', async () => {
  const { poller, begun, ended, skipped } = lasting(new AbortController())
  poller.retarget(['A', 'B'])
  await expect.poll(() => begun).toEqual(['A', 'B'])
  poller.retarget(['A', 'C'])
  await expect.poll(() => begun).toEqual(['A', 'B', 'C'])
  expect(ended).toEqual(['B'])
  expect(skipped).toEqual(['A'])
  // It is wanted again later.
  poller.retarget(['B'])
  await expect.poll(() => begun).toEqual(['A', 'B', 'C', 'B'])
  expect(ended).toEqual(['B', 'A', 'C'])
  await poller.stop()
  expect(ended).toEqual(['B', 'A', 'C', 'B'])
})

test('ends all requests with whatever ends everything, and begins none after that', async () => {
  const stopping = new AbortController()
  const { poller, begun, ended } = lasting(stopping)
  poller.retarget(['A'])
  await expect.poll(() => begun).toEqual(['A'])
  stopping.abort()
  expect(ended).toEqual(['A'])
  poller.retarget(['B'])
  await poller.stop()
  expect(begun).toEqual(['A'])
})

test('a request of all targets tells how many were answered', async () => {
  const answers = new Map([
    ['A', true],
    ['B', true],
  ])
  const poller = createPoller<string>({ clock: systemClock, signal: new AbortController().signal }, () => ({
    keyOf: (target) => target,
    maxPauseMs: 1_000,
    retarget: () => undefined,
    waitMs: () => Infinity,
    take: () => [],
    skipped: () => undefined,
    request: (target) => Promise.resolve(answers.get(target) ?? false),
  }))
  poller.retarget(['A', 'B'])
  expect(await poller.pollAll()).toBe('all')
  answers.set('B', false)
  expect(await poller.pollAll()).toBe('some')
  answers.set('A', false)
  expect(await poller.pollAll()).toBe('none')
  await poller.stop()
})

test('gives others a turn while thousands of requests begin, and while they end', async () => {
  const stopping = new AbortController()
  const { poller, begun, ended } = lasting(stopping)
  // Requests that began or ended within one turn of the event loop.
  let most = 0
  let before = 0
  const watch = () => {
    most = Math.max(most, begun.length + ended.length - before)
    before = begun.length + ended.length
    watching = setImmediate(watch)
  }
  let watching = setImmediate(watch)
  const targets = Array.from({ length: 3_000 }, (_, place) => `T${place}`)
  poller.retarget(targets)
  await expect.poll(() => begun.length).toBe(3_000)
  // Those that are wanted again meanwhile go on.
  poller.retarget([])
  poller.retarget(targets.slice(0, 2_000))
  await expect.poll(() => ended.length).toBe(1_100)
  stopping.abort()
  const stopped = poller.stop()
  poller.retarget(targets)
  await stopped
  clearImmediate(watching)
  expect(new Set(ended).size).toBe(3_000)
  expect(most).toBeLessThanOrEqual(400)
})
