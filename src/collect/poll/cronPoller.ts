import { backoffMs } from '../../runtime/clock.js'
import { nextRunOf, onSchedule } from '../schedule/cron.js'
import { retrySoon } from '../schedule/pace.js'
import type { ListStream } from '../streams/stream.js'
import { createPoller, type Poller } from './poller.js'
import { pollAndStore, type PollContext } from './pollAndStore.js'

const lookEveryMs = 60_000

/** Requests all targets whenever the wall clock matches, and calls `afterPoll` when a response for one came. */
export function cronPoller<Target, Row>(
  context: PollContext,
  stream: ListStream<Target, Row>,
  expression: string,
  afterPoll: () => void,
): Poller<Target> {
  const { clock, signal, stats } = context
  const nextRun = nextRunOf(expression)
  const keyOf = (target: Target) => JSON.stringify(target)
  let targets: readonly Target[] = []
  let due: Target[] = []
  const failed = new Map<string, { readonly failures: number; readonly cancelRetry: () => void }>()

  return createPoller(context, (wake) => {
    const noteOutcome = (target: Target, isKept: boolean) => {
      const key = keyOf(target)
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
        due.push(...targets.filter((one) => keyOf(one) === key))
        wake()
      }
      failed.set(key, { failures, cancelRetry: isScheduledSooner ? () => {} : clock.after(delayMs, again) })
    }
    const endSchedule = onSchedule(clock, expression, () => {
      due = [...targets]
      wake()
    })
    return {
      keyOf,
      lookEveryMs,
      retarget(next) {
        targets = next
        stats[stream.name].targets = next.length
      },
      waitMs: () => (due.length > 0 ? 0 : Infinity),
      take: () => due.splice(0),
      skipped: () => void (stats[stream.name].skippedPolls += 1),
      async request(target, ending) {
        // By the next time at the latest: fills that are always overdue would else take all that the overall limit allows.
        const dueAt = nextRun(clock.now())
        const deadline = dueAt === null ? Infinity : clock.monotonicMs() + dueAt - clock.now()
        const polled = await pollAndStore(context, stream, target, { signal: ending, deadline })
        noteOutcome(target, polled.batch !== null && polled.isKept)
        if (polled.batch !== null) afterPoll()
        return polled.batch !== null
      },
      end() {
        endSchedule()
        for (const { cancelRetry } of failed.values()) cancelRetry()
      },
    }
  })
}
