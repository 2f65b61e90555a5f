import { type StreamName, streamNames } from '../../market/stream.js'
import type { TimeMs } from '../../market/values.js'
import type { LeftOut } from '../universe/select.js'

/** Present state of a stream, and its counts since the process started. */
export interface StreamStats {
  /** Instruments, series or lists that the stream covers now. */
  targets: number
  /** Targets that are requested less often, because their responses bring nothing. */
  quietTargets: number
  /** Overdue targets, among those that are requested at the usual interval. */
  lateTargets: number
  /** Instruments that the stream could cover but does not, by reason. */
  leftOut: LeftOut
  responses: number
  failures: number
  /** Polls skipped because the previous one was still under way. */
  skippedPolls: number
  rowsWritten: number
  rowsUnchanged: number
  rowsRejected: number
  /** Rows that were lost because neither database nor spool could take them. */
  rowsDropped: number
  gapsFound: number
  lastStoredAt: TimeMs | null
  /** Last time at which the stream had nothing to request; null if it never had. */
  lastIdleAt: TimeMs | null
}

export type CollectorStats = Readonly<Record<StreamName, StreamStats>>

export function createStats(): CollectorStats {
  return Object.fromEntries(
    streamNames.map((name) => [
      name,
      {
        targets: 0,
        quietTargets: 0,
        lateTargets: 0,
        leftOut: { kind: 0, turnover: 0, number: 0, limits: 0 },
        responses: 0,
        failures: 0,
        skippedPolls: 0,
        rowsWritten: 0,
        rowsUnchanged: 0,
        rowsRejected: 0,
        rowsDropped: 0,
        gapsFound: 0,
        lastStoredAt: null,
        lastIdleAt: null,
      } satisfies StreamStats,
    ]),
  ) as Record<StreamName, StreamStats>
}
