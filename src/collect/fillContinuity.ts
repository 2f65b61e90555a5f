import type { Fill } from '../market/fill.js'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'

/** The service shows at most this many fills, and has no way to ask for older ones. */
export const fillsPerPage = 100

/** What must be remembered of the last stored answer to tell whether the next one follows on without a hole. */
export interface FillMemory {
  /** Everything before this moment is either stored or recorded as a gap. */
  readonly knownUntil: TimeMs
  readonly execIds: ReadonlySet<string>
}

export interface FillJudgement {
  /** The stretch that is complete once this answer is stored; null when it adds none. */
  readonly proven: TimeRange | null
  /** Fills happened in here that the service no longer shows. */
  readonly gap: TimeRange | null
  readonly newFills: number
  readonly memory: FillMemory
}

/**
 * Judges whether an answer follows on from what is known.
 *
 * Answers are unbroken runs of fills, so two of them join when they share a fill, or when the later one is not full and
 * therefore shows all there is. Several fills may share a millisecond and the newest millisecond of an answer may still
 * grow; so a proven stretch ends before it, and one that starts in the middle of a run starts after its first.
 *
 * @param rows what the answer holds, newest first
 * @param pageSize how many rows it held, broken ones included
 */
export function judgeFills(
  memory: FillMemory | null,
  rows: readonly Fill[],
  pageSize: number,
  requestTime: TimeMs,
): FillJudgement {
  const execIds = new Set(rows.map((fill) => fill.execId))
  const times = rows.map((fill) => fill.ts)
  const oldest = times.length > 0 ? Math.min(...times) : null
  const newest = times.length > 0 ? Math.max(...times) : null
  const isFull = pageSize >= fillsPerPage
  if (oldest === null || newest === null) {
    // Nothing has traded yet: whatever comes later and is not a full page follows on from here.
    const empty = { knownUntil: requestTime, execIds }
    return { proven: null, gap: null, newFills: 0, memory: memory ?? empty }
  }
  if (memory === null) {
    const from = isFull ? oldest + 1 : oldest
    return {
      proven: rangeOrNull(from, newest),
      gap: null,
      newFills: rows.length,
      memory: { knownUntil: newest, execIds },
    }
  }
  const newFills = rows.filter((fill) => !memory.execIds.has(fill.execId)).length
  const joins = newFills < rows.length || (!isFull && memory.execIds.size === 0)
  const knownUntil = Math.max(newest, memory.knownUntil)
  if (joins) {
    return {
      proven: rangeOrNull(memory.knownUntil, newest),
      gap: null,
      newFills,
      memory: { knownUntil, execIds },
    }
  }
  return {
    proven: rangeOrNull(oldest + 1, newest),
    gap: rangeOrNull(memory.knownUntil, oldest + 1),
    newFills,
    memory: { knownUntil, execIds },
  }
}

/**
 * Milliseconds until the next answer should be asked for, so that it still overlaps with this one: when half a page is
 * expected to be new. Trading comes in bursts, so the highest of the rates over the last fills and over the page counts;
 * silence since then lowers them all.
 */
export function nextFillPollMs(
  newestFirst: readonly Fill[],
  requestTime: TimeMs,
  minPollMs: number,
  maxPollMs: number,
): number {
  const rates = [20, 50, fillsPerPage].map((count) => {
    const oldest = newestFirst[Math.min(count, newestFirst.length) - 1]
    return oldest === undefined ? 0 : Math.min(count, newestFirst.length) / Math.max(1, requestTime - oldest.ts)
  })
  const perMs = Math.max(...rates)
  if (perMs === 0) return maxPollMs
  return Math.min(maxPollMs, Math.max(minPollMs, fillsPerPage / 2 / perMs))
}

function rangeOrNull(from: TimeMs, to: TimeMs): TimeRange | null {
  return from < to ? { from, to } : null
}
