import type { InstrumentKey } from '../../market/category.js'
import { LoopSet } from './loopSet.js'
import { type PollContext, pollAndStore } from './pollContext.js'
import { instrumentText, loopPoller, type Poller, sleepUntil } from './poller.js'
import { nextDue, stablePhase } from './schedule.js'
import type { StreamDefinition } from '../streams.js'

/** Asks for each target once a cycle, at the instrument's own place in it. */
export function cyclePoller<Target extends InstrumentKey, Payload, Row>(
  context: PollContext,
  stream: StreamDefinition<Target, Payload, Row>,
  everyMs: number,
): Poller<Target> {
  const { clock, stats } = context
  const loops = new LoopSet<Target>(instrumentText, async (target, ended) => {
    const signal = AbortSignal.any([ended, context.signal])
    const phase = stablePhase(target)
    // The first snapshot does not wait for the cycle: a new recorder has something to show at once.
    for (let due = clock.now(); await sleepUntil(clock, due, signal);) {
      const deadline = clock.monotonicMs() + everyMs
      await pollAndStore(context, stream, target, { signal, deadline })
      const next = nextDue(clock.now(), everyMs, phase)
      stats[stream.name].skippedPolls += Math.max(0, Math.round((next - due) / everyMs) - 1)
      due = next
    }
  })
  return loopPoller(context, stream.name, loops)
}
