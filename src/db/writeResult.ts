/** Numbers of rows by their fate in a write. Rows that occur twice in a batch count as unchanged. */
export interface WriteResult {
  readonly inserted: number
  readonly updated: number
  /** Rows that were stored already, with the same values. */
  readonly unchanged: number
}
