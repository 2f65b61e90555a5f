/** A file of rows in the archive. `recorder.archived_day` keeps it, and the snapshot of its table names it. */
export interface ArchiveFile {
  /** Path from the root of the archive. */
  readonly path: string
  /** Table that shows the rows: an archived table, or a table of proof. */
  readonly table: string
  /** Value of the second column of the partition: a category, or the stream that a proof is about. */
  readonly divider: string
  readonly rows: number
  readonly bytes: number
  /** SHA-256 of the rows, which does not depend on the types of the file. */
  readonly sha256: string
  /** Lowest and highest symbol. */
  readonly symbols: readonly [string, string]
  /** True if its rows are final. No run replaces them. */
  readonly isFinal: boolean
}
