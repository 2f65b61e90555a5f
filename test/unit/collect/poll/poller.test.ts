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
