import type { TimeMs } from './values.js'

/** A half-open range of time: `from` is in it, `to` is not. */
export interface TimeRange {
  readonly from: TimeMs
  readonly to: TimeMs
}
