import { type InstrumentKey, instrumentText } from '../../market/category.js'
import type { StreamDefinition } from '../streams.js'
import { CycleSchedule } from '../schedule/cycleSchedule.js'
import { type PollContext, pollAndStore } from './pollAndStore.js'
import { Exclusive, type Poller } from './poller.js'
import { stablePhase } from '../schedule/phase.js'
import { TargetSignals } from './targetSignals.js'
import { momentOf } from '../../runtime/clock.js'
import { InterruptibleSleep } from '../../runtime/interruptibleSleep.js'

/** How often new tickers are looked through, and a wake-up that was computed too late is made good. */
const lookAroundMs = 1000
const shortestWaitMs = 5

/**
 * Asks for each target once a cycle, at the instrument's own place in it; less often for those whose responses bring nothing.
 * The first response does not wait for the cycle: a new recorder has something to show at once.
 */
export function cyclePoller<Target extends InstrumentKey, Row>(
  context: PollContext,
  stream: StreamDefinition<Target, Row>,
  everyMs: number,
): Poller<Target> {
  const { clock, stats, universe } = context
  const schedule = new CycleSchedule<Target>({
    keyOf: instrumentText,
    groupOf: ({ category }) => category,
    phaseOf: stablePhase,
    everyMs,
  })
  const exclusive = new Exclusive()
  const ended = new AbortController()
  const { signal } = ended
  const signals = new TargetSignals(signal)
  const end = () => {
    ended.abort()
    pause.wake()
  }
  const pause = new InterruptibleSleep(clock)

  const ask = async (target: Target) => {
    // A new target is due at once when its last owner is gone, because it has already waited without requests.
    const isWaiting = !schedule.isKnown(target) && universe.ownership.isOrphan(stream.name, target)
    const deadline = clock.monotonicMs() + (isWaiting ? 0 : everyMs)
    // Read the sign before the request: any later change of the ticker is then noticed as new.
    const sign = universe.quoteSign(target)
    const polled = await signals.during(instrumentText(target), (waiting) =>
      pollAndStore(context, stream, target, { signal: waiting, deadline }),
    )
    // A response that was not kept counts as a failure, because waiting a whole cycle would leave one without rows.
    if (polled.batch === null || !polled.isKept) schedule.failed(target, momentOf(clock))
    else {
      stats[stream.name].skippedPolls += schedule.responded(
        target,
        stream.contentOf?.(polled.batch.rows) ?? null,
        sign,
        momentOf(clock),
      )
    }
    if (schedule.nextMs(clock.monotonicMs()) < clock.monotonicMs() + lookAroundMs) pause.wake()
  }

  const lookAround = () => {
    const at = momentOf(clock)
    for (const target of schedule.targets()) {
      const sign = universe.quoteSign(target)
      if (sign !== null) schedule.claim(target, sign, at)
    }
    report()
  }
  const report = () => {
    const { covered, quiet, leftOut, late, isIdle } = schedule.counts(clock.monotonicMs())
    const streamStats = stats[stream.name]
    streamStats.targets = covered
    streamStats.quietTargets = quiet
    streamStats.lateTargets = late
    // Instruments that once had a book and have none any more are another matter: that may be the service's fault.
    if (isIdle) streamStats.lastIdleAt = clock.now()
    const { number, limits } = streamStats.leftOut
    // The rest is left out for want of places: as many as the selection names, or as the limits allow.
    streamStats.leftOut = {
      ...streamStats.leftOut,
      number: limits > 0 ? 0 : Math.min(number, leftOut),
      limits: limits > 0 ? leftOut : 0,
    }
  }

  const run = async () => {
    for (let lookedMs = -Infinity; !signal.aborted;) {
      const ms = clock.monotonicMs()
      if (ms - lookedMs >= lookAroundMs) {
        lookedMs = ms
        lookAround()
      }
      for (const target of schedule.take(ms)) {
        const isStarted = exclusive.run(instrumentText(target), () => ask(target))
        // Taken off the list and put on it again while its last request was under way.
        if (!isStarted) schedule.failed(target, momentOf(clock))
      }
      const waitMs = Math.min(
        lookAroundMs,
        Math.max(shortestWaitMs, schedule.nextMs(clock.monotonicMs()) - clock.monotonicMs()),
      )
      await pause.sleep(waitMs)
    }
  }
  if (context.signal.aborted) end()
  else context.signal.addEventListener('abort', end, { once: true })
  const running = run()

  return {
    retarget(targets, places = Infinity) {
      schedule.retarget(targets, places, clock.monotonicMs())
      signals.keepOnly(new Set(targets.map(instrumentText)))
      report()
      pause.wake()
    },
    async stop() {
      end()
      context.signal.removeEventListener('abort', end)
      await running
      await exclusive.idle()
    },
  }
}
