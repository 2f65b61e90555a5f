import type { TradedCategory } from '../../market/category.js'
import { backoffMs, sleepFor } from '../../runtime/clock.js'
import { messageOf } from '../../runtime/text.js'
import { nextRunOf, onSchedule } from '../schedule/cron.js'
import { retrySoon } from '../schedule/pace.js'
import type { tickerWatch } from '../streams/rates.js'
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
      // A failed list is requested again before its next time. Streams choose their instruments from it, and would
      // otherwise lack some for the whole period.
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

interface WatchOptions extends ReturnType<typeof tickerWatch> {
  /**
   * Returns what an extra read of a category's tickers is worth, `sinceMs` after the newest ones. It is sent from a
   * worth of 1 on.
   */
  readonly worthOf: (category: TradedCategory, sinceMs: number) => number
  /** Called after each extra read, when its tickers are known to the universe. */
  readonly onRead: () => void
}

/**
 * Sends extra reads of tickers, between the recorded ones, until the signal aborts. The schedule of fills learns from
 * their volumes where trades happen: a burst is over before the next recorded ticker. One read begins at a time, of the
 * category where it is worth most. Extra reads are not stored. Their failures are not reported, because the recorded
 * tickers report the same failures.
 */
export async function watchTickers(
  context: Pick<PollContext, 'client' | 'clock' | 'serviceNow' | 'universe' | 'logger' | 'signal'>,
  { categories, minMs, gapMs, worthOf, onRead }: WatchOptions,
): Promise<void> {
  const { client, clock, serviceNow, universe, logger, signal } = context
  const reading = new Map<TradedCategory, Promise<void>>()
  const begunMs = new Map<TradedCategory, number>()
  const readExtra = async (category: TradedCategory) => {
    try {
      const deadline = clock.monotonicMs() + minMs
      // The priority `repair` lets requests for recorded data go first.
      const { rows } = await client.tickers({ category }, { signal, deadline, priority: 'repair' })
      universe.setTickers(rows)
      onRead()
    } catch (error) {
      logger.debug(`tickers: ${messageOf(error)}`)
    }
  }
  const chooseCategory = (): TradedCategory | undefined => {
    const now = serviceNow() ?? Infinity
    let [best, maxWorth]: [TradedCategory | undefined, number] = [undefined, 1]
    for (const category of categories) {
      if (clock.monotonicMs() - (begunMs.get(category) ?? -Infinity) < minMs) continue
      const sinceMs = Math.max(0, now - (universe.tickersAt(category) ?? 0))
      const worth = sinceMs < minMs ? 0 : worthOf(category, sinceMs)
      if (worth >= maxWorth) [best, maxWorth] = [category, worth]
    }
    return best
  }
  while (await sleepFor(clock, gapMs, signal)) {
    const category = chooseCategory()
    if (category === undefined || reading.has(category)) continue
    reading.set(
      category,
      readExtra(category).finally(() => reading.delete(category)),
    )
    begunMs.set(category, clock.monotonicMs())
  }
  await Promise.all(reading.values())
}
