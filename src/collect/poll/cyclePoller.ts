import { type InstrumentKey, instrumentText } from '../../market/category.js'
import { isProven } from '../../market/stream.js'
import { momentOf } from '../../runtime/clock.js'
import { CycleSchedule } from '../schedule/cycleSchedule.js'
import { stablePhase } from '../schedule/pace.js'
import type { InstrumentStream, Trigger } from '../streams/stream.js'
import { createPoller, type Poller } from './poller.js'
import { type PollContext, pollAndStore } from './pollAndStore.js'

/** Time between two reads of the known tickers. No sleep is longer, so that a target due early is noticed. */
const maxPauseMs = 1000

/**
 * Requests each target once a cycle, at the instrument's own place in it. Targets whose responses bring nothing are
 * requested less often. New targets are requested at once, so that a new recorder soon has something to show.
 */
export function cyclePoller<Target extends InstrumentKey, Row>(
  context: PollContext,
  stream: InstrumentStream<Target, Row>,
  { everyMs, firstPart = 1 }: Extract<Trigger, { kind: 'cycle' }>,
): Poller<Target> {
  const { clock, stats, universe } = context
  const schedule = new CycleSchedule<Target>({
    keyOf: instrumentText,
    groupOf: ({ category }) => category,
    phaseOf: (key) => stablePhase(key) * firstPart,
    everyMs,
    isSilenceProven: isProven(stream.name),
  })
  const report = () => {
    const { covered, quiet, leftOut, late, isIdle } = schedule.counts(clock.monotonicMs())
    const streamStats = stats[stream.name]
    streamStats.targets = covered
    streamStats.quietTargets = quiet
    streamStats.lateTargets = late
    // Books are idle only if none of them ever changed. A book that disappears may be the service's fault.
    if (isIdle) streamStats.lastIdleAt = clock.now()
    const { number, limits } = streamStats.leftOut
    // The schedule knows how many targets lack a place. The plan knows whether the limits or the selection cause it.
    streamStats.leftOut = {
      ...streamStats.leftOut,
      number: limits > 0 ? 0 : Math.min(number, leftOut),
      limits: limits > 0 ? leftOut : 0,
    }
  }
  const waitMs = () => schedule.nextMs(clock.monotonicMs()) - clock.monotonicMs()
  return createPoller(context, (wake) => ({
    keyOf: instrumentText,
    maxPauseMs,
    onTick() {
      const at = momentOf(clock)
      for (const target of schedule.targets()) {
        const sign = universe.quoteSign(target)
        if (sign !== null) schedule.claim(target, sign, at)
      }
      report()
    },
    retarget(targets, places) {
      schedule.retarget(targets, places, clock.monotonicMs())
      report()
    },
    waitMs,
    take: () => schedule.take(clock.monotonicMs()),
    // The target was removed and added again while its last request was under way.
    skipped: (target) => schedule.failed(target, momentOf(clock)),
    async request(target, signal) {
      // A target whose last owner is gone is overdue, because it has already waited without requests.
      const isWaiting = !schedule.hasResponded(target) && universe.ownership.isOrphan(target)
      const deadline = clock.monotonicMs() + (isWaiting ? 0 : everyMs)
      // Read the sign before the request: any later change of the ticker is then noticed as new.
      const sign = universe.quoteSign(target)
      const { batch, content = null, isKept } = await pollAndStore(context, stream, target, { signal, deadline })
      // A response that was not kept counts as a failure: waiting for the next cycle would leave this one without rows.
      if (batch === null || !isKept) schedule.failed(target, momentOf(clock))
      else stats[stream.name].skippedPolls += schedule.responded(target, content, sign, momentOf(clock))
      if (waitMs() < maxPauseMs) wake()
      return batch !== null
    },
  }))
}
