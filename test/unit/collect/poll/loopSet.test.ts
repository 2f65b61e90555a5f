import { expect, test } from 'vitest'
import { LoopSet } from '../../../../src/collect/poll/loopSet.js'

test('targets come and go without disturbing the others, and stopping waits for what is under way', async () => {
  const events: string[] = []
  let finish: () => void = () => undefined
  const working = new Promise<void>((resolve) => (finish = resolve))
  const loops = new LoopSet<string>(
    (target) => target,
    async (target, signal) => {
      events.push(`start ${target}`)
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      if (target === 'slow') await working
      events.push(`end ${target}`)
    },
  )
  loops.update(['a', 'slow'])
  loops.update(['slow', 'b'])
  await Promise.resolve()
  expect(loops.size).toBe(2)
  expect(events).toEqual(['start a', 'start slow', 'start b', 'end a'])

  let stopped = false
  const stopping = loops.stop().then(() => (stopped = true))
  await new Promise((resolve) => setImmediate(resolve))
  expect(stopped).toBe(false)
  finish()
  await stopping
  expect(events.slice(4).toSorted()).toEqual(['end b', 'end slow'])
})

test('stopping also waits for a loop that was no longer wanted and has not finished yet', async () => {
  let finish: () => void = () => undefined
  const working = new Promise<void>((resolve) => (finish = resolve))
  const loops = new LoopSet<string>(
    (target) => target,
    () => working,
  )
  loops.update(['dropped'])
  loops.update([])
  let stopped = false
  const stopping = loops.stop().then(() => (stopped = true))
  await new Promise((resolve) => setImmediate(resolve))
  expect(stopped).toBe(false)
  finish()
  await stopping
})
