import type { Operation } from '../../market/stream.js'

/** A reserved place: the request is to be sent now, and settled when its response is known. */
export interface Departure {
  readonly operation: Operation
  readonly atMs: number
  /** Its number in its operation's budget, and in that of all. */
  readonly number: number
  readonly overallNumber: number
}

export type Settlement =
  | { readonly outcome: 'response'; readonly remaining?: number | undefined }
  | { readonly outcome: 'rate-limited'; readonly retryAfterMs?: number | undefined }
  /** No response: it tells nothing about the limits. */
  | { readonly outcome: 'failed' }
