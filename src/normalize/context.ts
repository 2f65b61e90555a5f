import type { TimeMs } from '../market/values.js'

/** What a normalizer may know of the answer that a payload came in, besides the payload. */
export interface AnswerContext {
  /** The service's clock when it answered. */
  readonly requestTime: TimeMs
  /** Our clock when the last byte arrived. */
  readonly receivedAt: TimeMs
}
