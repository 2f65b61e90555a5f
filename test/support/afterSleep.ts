import type { Clock } from '../../src/runtime/clock.js'

const takenBack = new Error('taken back')
const nothing = () => undefined

/** The `after` of a clock that can sleep. Each has a plain ending: an AbortSignal takes longer than the sleep of a fake clock. */
export function afterSleep(sleep: Clock['sleep']): Clock['after'] {
  return (ms, action) => {
    let end: () => void = nothing
    const onAbort = (given: () => void) => {
      end = given
      return () => void (end = nothing)
    }
    void sleep(ms, { aborted: false, reason: takenBack, onAbort }).then(action, nothing)
    return () => {
      const once = end
      end = nothing
      once()
    }
  }
}
