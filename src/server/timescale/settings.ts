import type { TimeStream } from '../../market/stream.js'

/** Storage settings of one table that grows with time. */
export interface TableSettings {
  /** Time span of one chunk, hours. */
  readonly chunkHours: number
  /** Age at which chunks become columnar, hours. */
  readonly columnstoreAfterHours: number
  /** Age at which rows are removed, days; without it they stay. */
  readonly retentionDays?: number
  /** True when only the archiver removes rows, once they are in the archive. Default false. */
  readonly isArchived?: boolean
}

/** Storage settings of every table, by table name. */
export type StorageSettings = Readonly<Record<TimeStream, TableSettings>> & {
  /** Age at which rows that could not be understood are removed, days since they were last seen. */
  readonly rejected_row: { readonly retentionDays: number }
}
