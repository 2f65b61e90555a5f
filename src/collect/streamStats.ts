import { type StreamName, streamNames } from '../market/stream.js'
import type { TimeMs } from '../market/values.js'
import type { LeftOut } from './plan/planDemand.js'

/** What has become of a stream since the process started. Counts only ever grow. */
export interface StreamStats {
  /** Instruments, series or lists that the stream covers now. */
  targets: number
  /** Of those: asked for less often, because their responses bring nothing. */
  quietTargets: number
  /** Of those that are asked for at their rhythm: how many are overdue. */
  lateTargets: number
  /** Instruments that it could cover and does not, by what leaves them out. */
  leftOut: LeftOut
  responses: number
  failures: number
  /** Polls left out because the one before was still under way. */
  skippedPolls: number
  rowsWritten: number
  rowsUnchanged: number
  rowsRejected: number
  /** Rows that were lost because neither database nor spool could take them. */
  rowsDropped: number
  gapsFound: number
  lastStoredAt: TimeMs | null
  /** When it was last known that there is nothing to ask for; null while there always is. */
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
