import { pageParameters, type PageRequest, type PageResponse } from '../../../src/history/sources.js'
import { silenceBetween } from '../../../src/market/candle.js'
import type { TimeMs } from '../../../src/market/values.js'

/** How a service that has certain candles answers for pages of them. */
export interface Behaviour {
  /** Opening times of the candles that exist, ascending. */
  readonly truth: readonly TimeMs[]
  readonly lengthMs: number
  /** The oldest opening time that `candles` answers for. */
  readonly reachedFrom: TimeMs
  readonly candlesStartInclusive: boolean
  readonly candlesEndExclusive: boolean
  readonly historyEndInclusive: boolean
  /** Whether `history-candles` has what `candles` has, too. */
  readonly historyHoldsRecent: boolean
  /** Candles left out of the responses of one operation, or of both. */
  readonly hidden: (operation: string, openTime: TimeMs) => boolean
  /** How many of the first responses to the same parameters are empty. */
  readonly emptyAtFirst: number
  /** Fewer rows than the limit that was asked for. */
  readonly rowsAtMost: number
  /** Whether what a response leaves out between two candles is taken for silence. */
  readonly isSilenceTold: boolean
  /** Whether a response for times from `from` shows what it lacks. */
  readonly lackOf?: (operation: string, from: TimeMs) => PageResponse['lack']
  /** The limit counts places on the time axis instead of candles. */
  readonly limitCountsPlaces: boolean
}

export interface PageModel {
  ask(request: PageRequest): Promise<PageResponse>
  readonly received: Set<TimeMs>
  /** Every response by itself: the opening times of its rows. */
  readonly answers: (readonly TimeMs[])[]
  readonly requests: { readonly operation: string; readonly isEmpty: boolean }[]
}

/** @param delay how many turns of the event queue the next response takes */
export function pageModel(behaviour: Behaviour, delay: () => number): PageModel {
  const received = new Set<TimeMs>()
  const requests: { operation: string; isEmpty: boolean }[] = []
  const asked = new Map<string, number>()
  const answers: (readonly TimeMs[])[] = []
  return {
    received,
    requests,
    answers,
    async ask(request) {
      const parameters = pageParameters(request, behaviour.lengthMs)
      const key = JSON.stringify([request.operation, parameters])
      const times = (asked.get(key) ?? 0) + 1
      asked.set(key, times)
      for (let turns = delay(); turns > 0; turns--) await Promise.resolve()
      const lack = behaviour.lackOf?.(request.operation, request.window.from) ?? 'shown'
      const rows =
        times <= behaviour.emptyAtFirst || lack === 'untold' ? [] : answer(behaviour, request.operation, parameters)
      requests.push({ operation: request.operation, isEmpty: rows.length === 0 })
      for (const openTime of rows) received.add(openTime)
      answers.push(rows)
      const response = {
        type: 'market',
        lengthMs: behaviour.lengthMs,
        isComplete: true,
        settledUntil: Infinity,
      } as const
      return { openTimes: rows, silence: behaviour.isSilenceTold ? silenceBetween(rows, response) : [], lack }
    },
  }
}

function answer(
  behaviour: Behaviour,
  operation: PageRequest['operation'],
  parameters: ReturnType<typeof pageParameters>,
): TimeMs[] {
  const { truth, lengthMs, reachedFrom } = behaviour
  const { startTime = Number.NEGATIVE_INFINITY, endTime, limit } = parameters
  const isRecent = operation === 'candles'
  const before = (isRecent ? behaviour.candlesEndExclusive : !behaviour.historyEndInclusive) ? endTime : endTime + 1
  const from = isRecent ? Math.max(reachedFrom, behaviour.candlesStartInclusive ? startTime : startTime + 1) : -Infinity
  const until = isRecent || behaviour.historyHoldsRecent ? before : Math.min(before, reachedFrom)
  const rowsAtMost = Math.min(limit, behaviour.rowsAtMost)
  const end = firstNotBefore(truth, until)
  // More than any page holds, hidden ones included.
  const inRange = truth.slice(Math.max(end - 3000, firstNotBefore(truth, from)), end)
  const newest = inRange.at(-1)
  if (newest === undefined) return []
  const isShown = (time: TimeMs) => !behaviour.hidden(operation, time)
  if (behaviour.limitCountsPlaces) {
    const oldest = newest - (rowsAtMost - 1) * lengthMs
    return inRange.slice(firstNotBefore(inRange, oldest)).filter(isShown)
  }
  return inRange.filter(isShown).slice(-rowsAtMost)
}

function firstNotBefore(sorted: readonly TimeMs[], time: TimeMs): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((sorted[middle] as TimeMs) < time) low = middle + 1
    else high = middle
  }
  return low
}
