import { backoffMs } from '../../runtime/clock.js'
import { nextRunOf, onSchedule } from '../schedule/cron.js'
import { retrySoon } from '../schedule/pace.js'
import type { ListStream } from '../streams/stream.js'
import { pollAndStore, type PollContext } from './pollAndStore.js'
import { createPoller, type Poller } from './poller.js'

/** Requests all targets whenever the wall clock matches, and calls `afterPoll` when a response for one came. */
export function cronPoller<Target extends object, Row>(
  context: PollContext,
  stream: ListStream<Target, Row>,
  expression: string,
  afterPoll: () => void,
): Poller<Target> {
  const { clock, signal, stats, wholeLists } = context
  const nextRun = nextRunOf(expression)
  const keyOf = (target: Target) => JSON.stringify(target)
  let targets: readonly Target[] = []
  let due: Target[] = []
  const failed = new Map<string, { readonly failures: number; readonly cancelRetry: () => void }>()

  return createPoller(context, (wake) => {
    const noteOutcome = (target: Target, isSettled: boolean) => {
      const key = keyOf(target)
      const before = failed.get(key)
      before?.cancelRetry()
      failed.delete(key)
      if (isSettled || signal.aborted) return
      const failures = (before?.failures ?? 0) + 1
      // A list that failed, or whose next one is pressing, is requested again before its next time. Streams choose their
      // instruments from it, and would otherwise lack some for the whole period.
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
      retarget(next) {
        targets = next
        stats[stream.name].targets = next.length
      },
      waitMs: () => (due.length > 0 ? 0 : Infinity),
      take: () => due.splice(0),
      skipped: () => void (stats[stream.name].skippedPolls += 1),
      async request(target, ending) {
        // Without a deadline at the next scheduled time, overdue fills would take all that the overall limit allows.
        const dueAt = nextRun(clock.now())
        const deadline = dueAt === null ? Infinity : clock.monotonicMs() + dueAt - clock.now()
        const polled = await pollAndStore(context, stream, target, { signal: ending, deadline })
        noteOutcome(target, polled.isKept && !wholeLists.isPressing(stream.name, target))
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
