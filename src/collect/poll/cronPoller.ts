import { backoffMs } from '../../runtime/backoff.js'
import { retrySoon } from '../schedule/pace.js'
import { nextRunOf, onSchedule } from './cron.js'
import { type PollContext, pollAndStore } from './pollAndStore.js'
import { Exclusive, type Poller } from './poller.js'
import type { StreamDefinition } from '../streams.js'

/** Asks for all targets whenever the wall clock matches, and calls `afterPoll` when a response for one came. */
export function cronPoller<Target, Row>(
  context: PollContext,
  stream: StreamDefinition<Target, Row>,
  expression: string,
  afterPoll: () => void,
): Poller<Target> {
  const { clock, signal, stats } = context
  const exclusive = new Exclusive()
  const nextRun = nextRunOf(expression)
  let targets: readonly Target[] = []
  const failed = new Map<string, { readonly failures: number; readonly cancelRetry: () => void }>()

  const pollOne = async (target: Target) => {
    // By the next time at the latest: fills that are always overdue would else take all that the overall limit allows.
    const dueAt = nextRun(clock.now())
    const deadline = dueAt === null ? Infinity : clock.monotonicMs() + dueAt - clock.now()
    const polled = await pollAndStore(context, stream, target, { signal, deadline })
    noteOutcome(target, polled.batch !== null && polled.isKept)
    if (polled.batch !== null) afterPoll()
    return polled.batch !== null
  }
  const noteOutcome = (target: Target, isKept: boolean) => {
    const key = JSON.stringify(target)
    const before = failed.get(key)
    before?.cancelRetry()
    failed.delete(key)
    if (isKept || signal.aborted) return
    const failures = (before?.failures ?? 0) + 1
    // Not left until the schedule's next time where that is later: from a list others choose, and one bad response would leave
    // instruments out for as long as the list's period.
    const delayMs = backoffMs(failures, retrySoon)
    const dueAt = nextRun(clock.now())
    const isScheduledSooner = dueAt !== null && dueAt <= clock.now() + delayMs
    const again = () => {
      const isWanted = targets.some((one) => JSON.stringify(one) === key)
      if (isWanted) exclusive.run(key, () => pollOne(target))
    }
    failed.set(key, { failures, cancelRetry: isScheduledSooner ? () => {} : clock.after(delayMs, again) })
  }
  const endSchedule = onSchedule(clock, expression, () => {
    for (const target of targets) {
      if (!exclusive.run(JSON.stringify(target), () => pollOne(target))) stats[stream.name].skippedPolls += 1
    }
  })
  return {
    retarget(next) {
      targets = next
      stats[stream.name].targets = next.length
    },
    async pollAll() {
      const responded = await Promise.all(targets.map(pollOne))
      if (responded.every(Boolean)) return 'all'
      return responded.some(Boolean) ? 'some' : 'none'
    },
    async stop() {
      endSchedule()
      for (const { cancelRetry } of failed.values()) cancelRetry()
      await exclusive.idle()
    },
  }
}
