import type { TimeTableName } from '../../db/timeTables.js'

/** What of the configuration concerns how a table is kept. */
export interface TableSettings {
  /** Time span of one chunk, hours. */
  readonly chunkHours: number
  /** Age at which chunks become columnar, hours. */
  readonly columnstoreAfterHours: number
  /** Age at which rows are removed, days; without it they stay. */
  readonly retentionDays?: number
  /** Whether rows are removed by the archiver alone, when they are in the archive. Default false. */
  readonly isArchived?: boolean
}

/** By the names of tables. */
export type StorageSettings = Readonly<Record<TimeTableName, TableSettings>> & {
  /** Age at which rows that could not be understood are removed, days since they were last seen. */
  readonly rejected_row: { readonly retentionDays: number }
}
