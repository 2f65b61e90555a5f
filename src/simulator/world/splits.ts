import { dayMs, type TimeMs } from '../../market/values.js'
import { runMs } from './runs.js'
import { mix, unit } from './hash.js'
import type { Split } from './traits.js'

const calendarStart = Date.UTC(2024, 0, 1)
const calendarEnd = Date.UTC(2031, 0, 1)
const factors = [2, 3, 4, 5, 10, 20, 0.1]

/** A split takes effect between two runs of fills, because those of a run share a price. */
export function splitAt(at: TimeMs, factor: number, relists: boolean): Split {
  return { at: Math.ceil(at / runMs) * runMs, factor, relists }
}

/** The splits of an instrument, about `perYear` of them, at the beginning of a trading day. */
export function drawnSplits(key: number, perYear: number): readonly Split[] {
  const splits: Split[] = []
  const quarter = 91 * dayMs
  for (let number = 0; calendarStart + number * quarter < calendarEnd; number++) {
    if (unit(mix(key, number, 0x5917)) >= perYear / 4) continue
    const at = calendarStart + number * quarter + (mix(key, number, 0x5918) % 91) * dayMs + dayMs / 3
    splits.push(splitAt(at, factors[mix(key, number, 0x5919) % factors.length] ?? 2, true))
  }
  return splits
}

/** Product of the split factors in (after, until]. It divides a price of `after` that is reported at `until`. */
export function splitFactor(splits: readonly Split[], after: TimeMs, until: TimeMs): number {
  let factor = 1
  for (const split of splits) if (split.at > after && split.at <= until) factor *= split.factor
  return factor
}

/** The splits that have happened, as text: what was computed before one of them no longer holds. */
export function splitStamp(splits: readonly Split[], until: TimeMs): string {
  if (splits.length === 0) return ''
  return splits
    .filter(({ at }) => at <= until)
    .map(({ at, factor }) => `${at}*${factor}`)
    .join()
}
