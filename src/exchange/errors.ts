import { oneLine } from '../market/values.js'
import type { Operation } from '../market/operation.js'
import { type ExchangeErrorKind, failureTraits, retryableCodes } from './outcomes.js'

interface ExchangeErrorDetails {
  readonly operation: Operation
  readonly parameters: Readonly<Record<string, string>>
  /** Description of the failure in a few words, for the message. */
  readonly what: string
  readonly code?: string
  readonly retryAfterMs?: number
  /** Overrides `isRetryable` of the kind. */
  readonly retryable?: boolean
  readonly cause?: unknown
}

/** Thrown for every failed request. Its message is one line: which request, what happened, what to do. */
export class ExchangeError extends Error {
  override readonly name = 'ExchangeError'
  readonly kind: ExchangeErrorKind
  readonly operation: Operation
  readonly code: string | undefined
  readonly retryAfterMs: number | undefined
  readonly retryable: boolean

  constructor(kind: ExchangeErrorKind, details: ExchangeErrorDetails) {
    const request = [details.operation, ...Object.values(details.parameters)].join(' ')
    super(oneLine(`${request}: ${kind}: ${details.what}; ${failureTraits[kind].advice}`), { cause: details.cause })
    this.kind = kind
    this.operation = details.operation
    this.code = details.code
    this.retryAfterMs = details.retryAfterMs
    this.retryable =
      details.retryable ?? (failureTraits[kind].isRetryable === true || retryableCodes.has(this.code ?? ''))
  }
}
