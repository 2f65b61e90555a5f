import { expect, test } from 'vitest'
import { TargetSignals } from '../../../../src/collect/poll/targetSignals.js'
import { type Ending, onAbort } from '../../../../src/runtime/abort.js'

/** Work that lasts until it is told to end. */
function untilEnded(ending: Ending): Promise<string> {
  return new Promise((resolve) => {
    if (ending.aborted) resolve('had ended before')
    else onAbort(ending, () => resolve('was ended'))
  })
}

/** What came of it, if anything has by now. */
function now(work: Promise<string>): Promise<string> {
  return Promise.race([work, new Promise<string>((resolve) => setImmediate(() => resolve('still at it')))])
}

test('ends the work of targets that are no longer wanted, and no other', async () => {
  const signals = new TargetSignals(new AbortController().signal)
  const [a, b] = [signals.during('A', untilEnded), signals.during('B', untilEnded)]
  signals.keepOnly(new Set(['A', 'C']))
  expect(await now(b)).toBe('was ended')
  expect(await now(a)).toBe('still at it')
  // It is wanted again later.
  const again = signals.during('B', untilEnded)
  expect(await now(again)).toBe('still at it')
  signals.end()
  expect([await now(a), await now(again)]).toEqual(['was ended', 'was ended'])
})

test('ends all work with whatever ends everything, and lets none begin after that', async () => {
  const everything = new AbortController()
  const signals = new TargetSignals(everything.signal)
  const work = signals.during('A', untilEnded)
  everything.abort()
  expect(await now(work)).toBe('was ended')
  expect(await now(signals.during('B', untilEnded))).toBe('had ended before')
  expect(await now(new TargetSignals(everything.signal).during('A', untilEnded))).toBe('had ended before')
})

test('does not end work that is done, and hands on its failure', async () => {
  const signals = new TargetSignals(new AbortController().signal)
  const endings: Ending[] = []
  const fail = (ending: Ending) => {
    endings.push(ending)
    return Promise.reject(new Error('it failed'))
  }
  await expect(signals.during('A', fail)).rejects.toThrow('it failed')
  signals.keepOnly(new Set())
  signals.end()
  expect(endings.map(({ aborted }) => aborted)).toEqual([false])
})
