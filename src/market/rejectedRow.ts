/** A row of an answer that could not be understood, or not wholly: kept so that its cause can be found. */
export interface RejectedRow {
  readonly operation: string
  readonly parameters: Readonly<Record<string, string>>
  readonly reason: string
  /** The start of the row's JSON text, at most 4,096 bytes; numbers stand in it as they were sent. */
  readonly raw: string
  /** SHA-256 of the whole text, in hexadecimal digits. */
  readonly rawSha256: string
  /** Length of the whole text. */
  readonly rawBytes: number
  /** The row was stored, except for a part that is beyond a bound. */
  readonly isRowStored?: true
}
