import type { TimeRange } from '../../market/timeRange.js'
import type { TimeMs } from '../../market/values.js'

/** What one response of the fills operation holds, as far as continuity goes. */
export interface FillPage {
  /** Times of its oldest and newest fill; null when it holds none. */
  readonly times: { readonly oldest: TimeMs; readonly newest: TimeMs } | null
  /** Whether it is full, so that there may be older fills than it shows. */
  readonly isFull: boolean
  /** Time of the oldest of its fills that were stored before; null when none was. */
  readonly sharedFrom: TimeMs | null
  readonly requestTime: TimeMs
}

/** What is known of an instrument before a response is judged. */
export interface KnownFills {
  /** Its proven stretches, ascending. */
  readonly covered: readonly TimeRange[]
  /** Where known gaps end, ascending: those that end with the millisecond of the page's oldest stored fill, or just before it. */
  readonly gapEnds: readonly TimeMs[]
  /** Time of the newest stored fill that is not newer than the page's oldest; asked when the page shares none. */
  readonly storedUntil: TimeMs | null
}

export interface FillJudgement {
  /** The stretch that is complete with this page; null when it adds none. */
  readonly proven: TimeRange | null
  /** Fills may have happened in here that the service no longer shows; null when the page follows on. */
  readonly gap: TimeRange | null
}

/**
 * Judges whether a response follows on from what is stored.
 *
 * Responses are unbroken runs of fills, so two of them join when they share a fill, or when the later one is not full and
 * therefore shows all there is. Several fills may share a millisecond and the newest millisecond of a response may still
 * grow; so a proven stretch ends before it, and one that begins in the middle of a run begins after its oldest. Judged by
 * what is stored and not by what was asked, the verdict is the same after a restart, a replay or a change of recorders, and
 * responses may even be judged in another order than they were given in.
 *
 * A full response may lie in one millisecond, or two. It has no whole millisecond then, proves nothing, and leaves no stretch
 * that later ones could join: what it leaves are its fills, and the gap before it, which ends where its stretch would begin.
 */
export function judgeFills({ covered, gapEnds, storedUntil }: KnownFills, page: FillPage): FillJudgement {
  if (page.times === null) {
    // Nothing has traded yet: what comes later and is not a full page follows on from here.
    const anchor = { from: page.requestTime - 1, to: page.requestTime }
    return { proven: covered.length === 0 && !page.isFull ? anchor : null, gap: null }
  }
  const { oldest, newest } = page.times
  const ownFrom = ownStretchFrom(oldest, page.isFull)
  const joined = stretchBefore(covered, gapEnds, page)
  if (joined !== undefined) return { proven: rangeOrNull(Math.min(ownFrom, joined.to), newest), gap: null }
  const before = covered.findLast(({ to }) => to <= ownFrom)?.to ?? -Infinity
  const known = Math.max(before, storedUntil ?? -Infinity)
  return { proven: rangeOrNull(ownFrom, newest), gap: known === -Infinity ? null : rangeOrNull(known, ownFrom) }
}

/** Where the stretch begins of which a page is proof by itself: in a full one the oldest millisecond may be cut. */
export function ownStretchFrom(oldest: TimeMs, isFull: boolean): TimeMs {
  return isFull ? oldest + 1 : oldest - 1
}

/** The stretch that the page follows on from. */
function stretchBefore(
  covered: readonly TimeRange[],
  gapEnds: readonly TimeMs[],
  { sharedFrom, isFull }: FillPage,
): TimeRange | undefined {
  if (sharedFrom === null) {
    // Only the mark of an empty response: nothing is stored, and this page shows all there is.
    const last = covered.at(-1)
    return !isFull && covered.length === 1 && last !== undefined && last.to - last.from <= 1 ? last : undefined
  }
  // A stretch leaves out the millisecond of its first fill and that of its last one.
  const holds = ({ from, to }: TimeRange): boolean => from - 1 <= sharedFrom && sharedFrom <= to
  const stretch = covered.findLast(holds)
  if (stretch !== undefined && sharedFrom < stretch.to) return stretch
  // At the very end of a stretch, the shared fill may be of a response behind it that left an empty one.
  const empty = gapEnds.map((end) => ({ from: end, to: end })).findLast(holds)
  return empty ?? stretch
}

function rangeOrNull(from: TimeMs, to: TimeMs): TimeRange | null {
  return from < to ? { from, to } : null
}
