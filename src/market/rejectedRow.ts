/** A row of an answer that could not be understood, kept so that nothing is lost and the cause can be found. */
export interface RejectedRow {
  readonly operation: string
  readonly parameters: Readonly<Record<string, string>>
  readonly reason: string
  /** The row's JSON text; numbers stand in it as they were sent. */
  readonly raw: string
}
