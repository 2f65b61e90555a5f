import type { FillPayload } from '../../exchange/payloads.js'
import type { InstrumentKey } from '../../market/category.js'
import type { Fill } from '../../market/fill.js'
import { fillsPerPage } from './fillContinuity.js'
import { averageRate } from './fillRate.js'
import { fillShortage, FillSchedule } from './fillSchedule.js'
import { type FillsSeen, lateFills } from './lateFills.js'
import { type PollContext, pollAndStore } from '../poll/pollContext.js'
import { Exclusive, instrumentText, type Poller, sleepUntil } from '../poll/poller.js'
import type { StreamDefinition, Trigger } from '../streams.js'

/** How often new tickers are looked through, and a wake-up that was computed too late is made good. */
const lookAroundMs = 500

/** Asks for each instrument's fills before more have happened than one answer shows. */
export function fillsPoller(
  context: PollContext,
  stream: StreamDefinition<InstrumentKey, FillPayload, Fill>,
  { minPollMs, maxPollMs, allowedPerSecond }: Extract<Trigger, { kind: 'overlap' }>,
): Poller<InstrumentKey> & { readonly schedule: FillSchedule<InstrumentKey> } {
  const { clock, universe, stats, incidents, signal } = context
  const schedule = new FillSchedule<InstrumentKey>(instrumentText, { minPollMs, maxPollMs })
  const exclusive = new Exclusive()
  const ended = new AbortController()
  let wake = new AbortController()
  const end = () => {
    ended.abort()
    wake.abort()
  }
  if (signal.aborted) end()
  else signal.addEventListener('abort', end, { once: true })

  const seen = new Map<string, FillsSeen>()

  const ask = async (target: InstrumentKey, deadline: number) => {
    const batch = await pollAndStore(context, stream, target, { signal: ended.signal, deadline })
    const now = clock.monotonicMs()
    if (batch === null) schedule.failed(target, now)
    // The answer is older than now by the time it took to store it.
    else {
      schedule.answered(target, batch.rows, batch.requestTime, now - Math.max(0, clock.now() - batch.receivedAt))
      const key = instrumentText(target)
      if (seen.has(key)) seen.set(key, { atMs: now, perMs: averageRate(batch.rows, batch.requestTime) })
    }
    if (schedule.nextMs() < now + lookAroundMs) wake.abort()
  }

  const lookAround = () => {
    for (const target of schedule.targets()) {
      const sign = universe.tradeSign(target)
      if (sign !== null && schedule.traded(target, sign)) stats[stream.name].lastIdleAt = clock.now()
    }
    const lateness = lateFills(seen.values(), { nowMs: clock.monotonicMs(), maxPollMs, fillsPerPage })
    Object.assign(stats[stream.name], lateness)
    const shortage = fillShortage(schedule.load(), allowedPerSecond)
    if (shortage === null) incidents.succeeded('fills budget')
    else incidents.failed('fills budget', shortage)
  }

  const run = async () => {
    for (let lookedMs = -Infinity; !ended.signal.aborted;) {
      const now = clock.monotonicMs()
      if (now - lookedMs >= lookAroundMs) {
        lookedMs = now
        lookAround()
      }
      for (const { target, deadlineMs } of schedule.take(now)) {
        const isStarted = exclusive.run(instrumentText(target), () => ask(target, deadlineMs))
        // Taken off the list and put on it again while its last request was under way.
        if (!isStarted) schedule.failed(target, now)
      }
      wake = new AbortController()
      const waitMs = Math.min(lookAroundMs, Math.max(1, schedule.nextMs() - clock.monotonicMs()))
      await sleepUntil(clock, clock.now() + waitMs, wake.signal)
    }
  }
  const running = run()

  return {
    schedule,
    retarget(targets) {
      const now = clock.monotonicMs()
      schedule.retarget(targets, now)
      const wanted = new Set(targets.map(instrumentText))
      for (const key of seen.keys()) if (!wanted.has(key)) seen.delete(key)
      for (const key of wanted) if (!seen.has(key)) seen.set(key, { atMs: now, perMs: null })
      stats[stream.name].targets = targets.length
      wake.abort()
    },
    async stop() {
      end()
      signal.removeEventListener('abort', end)
      await running
      await exclusive.idle()
    },
  }
}
