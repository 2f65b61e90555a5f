import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Ending, endedByEither, LightEnding, onAbort, unlessAborted } from '../../../src/runtime/abort.js'

interface Endable {
  readonly ending: Ending
  readonly abort: () => void
}

const kinds: Readonly<Record<string, () => Endable>> = {
  'an AbortController': () => {
    const controller = new AbortController()
    return { ending: controller.signal, abort: () => controller.abort() }
  },
  'a light one': () => {
    const ending = new LightEnding()
    return { ending, abort: () => ending.abort() }
  },
  'either of two, the first': () => {
    const controller = new AbortController()
    return { ending: endedByEither(controller.signal, new LightEnding()), abort: () => controller.abort() }
  },
  'either of two, the second': () => {
    const second = new LightEnding()
    return { ending: endedByEither(new AbortController().signal, second), abort: () => second.abort() }
  },
}

describe.each(Object.entries(kinds))('an ending: %s', (_, make) => {
  it('calls each action once and those that were taken back never, however often it is aborted', () => {
    // What is done, in its order: an action is added, the last but n is taken back, or all is aborted.
    const steps = fc.array(
      fc.oneof(
        fc.constant({ kind: 'add' as const }),
        fc.record({ kind: fc.constant('takeBack' as const), which: fc.nat(5) }),
        fc.constant({ kind: 'abort' as const }),
      ),
      { maxLength: 20 },
    )
    fc.assert(
      fc.property(steps, (list) => {
        const { ending, abort } = make()
        const calls: number[] = []
        const added: { forget: () => void; isDue: boolean }[] = []
        let isAborted = false
        for (const step of list) {
          if (step.kind === 'add' && !isAborted) {
            const place = added.length
            calls.push(0)
            added.push({ forget: onAbort(ending, () => (calls[place] = (calls[place] ?? 0) + 1)), isDue: true })
          } else if (step.kind === 'takeBack') {
            const action = added.at(-1 - step.which)
            action?.forget()
            if (action !== undefined && !isAborted) action.isDue = false
          } else if (step.kind === 'abort') {
            abort()
            isAborted = true
          }
        }
        expect(ending.aborted).toBe(isAborted)
        expect(calls).toEqual(added.map(({ isDue }) => (isAborted && isDue ? 1 : 0)))
      }),
    )
  })

  it('does not call what another action has just taken back', () => {
    const { ending, abort } = make()
    const calls: string[] = []
    const forget: (() => void)[] = []
    onAbort(ending, () => {
      calls.push('first')
      forget[0]?.()
    })
    forget.push(onAbort(ending, () => calls.push('second')))
    onAbort(ending, () => calls.push('third'))
    abort()
    expect(calls).toEqual(['first', 'third'])
  })

  it('has the reason of an AbortController, and none before', () => {
    const { ending, abort } = make()
    expect(ending.reason).toBeUndefined()
    abort()
    expect(ending.reason).toMatchObject({ name: 'AbortError', message: 'This operation was aborted' })
  })
})

it('what is ended by either of two calls its actions once when both are aborted', () => {
  const [first, second] = [new AbortController(), new LightEnding()]
  let calls = 0
  onAbort(endedByEither(first.signal, second), () => calls++)
  second.abort()
  first.abort()
  expect(calls).toBe(1)
  expect(endedByEither(first.signal, undefined)).toBe(first.signal)
})

describe('a wait for work unless it is aborted', () => {
  /** An ending that counts the actions it holds. */
  function counted() {
    const ending = new LightEnding()
    let held = 0
    const counting: Ending = {
      get aborted() {
        return ending.aborted
      },
      get reason() {
        return ending.reason
      },
      onAbort(action) {
        held++
        const forget = ending.onAbort(action)
        return () => {
          held--
          forget()
        }
      },
    }
    return { ending: counting, abort: () => ending.abort(), held: () => held }
  }

  it('leaves nothing at the signal once the work has ended', async () => {
    const { ending, held } = counted()
    await unlessAborted(ending, Promise.resolve(1))
    await expect(unlessAborted(ending, Promise.reject(new Error('broken')))).rejects.toThrow('broken')
    expect(held()).toBe(0)
  })

  it('ends with the abort, and at once after it', async () => {
    const { ending, abort } = counted()
    const never = new Promise<void>(() => undefined)
    const waiting = unlessAborted(ending, never)
    abort()
    await waiting
    await unlessAborted(ending, never)
  })
})
