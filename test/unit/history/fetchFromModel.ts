import { fetchRange } from '../../../src/history/fetchRange.js'
import { Reach } from '../../../src/history/reach.js'
import type { TimeRange } from '../../../src/market/timeRange.js'
import type { TimeMs } from '../../../src/market/values.js'
import { type Behaviour, pageModel } from './pageModel.js'

export const minuteMs = 60_000
export const dayMs = 86_400_000
export const now = Date.UTC(2026, 0, 1)

/** A service without peculiarities. */
export const plain: Omit<Behaviour, 'truth' | 'lengthMs'> = {
  reachedFrom: now - 30 * dayMs,
  candlesStartInclusive: false,
  candlesEndExclusive: false,
  historyEndInclusive: false,
  historyHoldsRecent: true,
  hidden: () => false,
  emptyAtFirst: 0,
  rowsAtMost: Number.POSITIVE_INFINITY,
  limitCountsPlaces: true,
  isSilenceTold: true,
}

export function openings(from: TimeMs, to: TimeMs, lengthMs: number): TimeMs[] {
  return Array.from({ length: Math.max(0, Math.ceil((to - from) / lengthMs)) }, (_, i) => from + i * lengthMs)
}

type Task = Parameters<typeof fetchRange>[0]

/** Fills ranges from a service; `delay` says how many turns of the event queue each response takes. */
export async function fill(
  behaviour: Behaviour,
  wanted: readonly TimeRange[],
  floor: TimeMs,
  reach = reachOf(null),
  delay: () => number = () => 0,
  task: Partial<Task> = {},
) {
  const model = pageModel(behaviour, delay)
  const outcome = await fetchRange(
    {
      lengthMs: behaviour.lengthMs,
      wanted,
      floor,
      oldestKnown: null,
      isSparse: false,
      isAskedBefore: false,
      ...task,
    },
    {
      ask: (request) => {
        if (model.requests.length > 40_000) throw new Error('it does not end')
        const { from, to } = request.window
        if (from > to) throw new Error(`it asks from ${from} to ${to}, which is before`)
        return model.ask(request)
      },
      now: () => now,
      sleep: () => Promise.resolve(),
      reach,
    },
  )
  return { ...model, outcome, reach }
}

/** What is believed of the reach beforehand; null for nothing. */
export function reachOf(ageMs: number | null): Reach {
  const reach = new Reach({ now: () => now })
  // The second missing candle counts.
  if (ageMs !== null) for (let i = 0; i < 2; i++) reach.noteMissing(ageMs)
  return reach
}
