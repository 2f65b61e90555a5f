import type { Clock } from '../../src/runtime/clock.js'

/** Why a sleep ended that nobody waits for any more. One for all: without it each abort makes an exception of its own. */
const takenBack = new Error('taken back')

/** The `after` of a clock that can sleep. */
export function afterSleep(sleep: Clock['sleep']): Clock['after'] {
  return (ms, action) => {
    const taken = new AbortController()
    void sleep(ms, taken.signal).then(action, () => undefined)
    return () => taken.abort(takenBack)
  }
}
