import { oneLine } from '../market/values.js'
import type { Operation } from '../market/operation.js'

interface KindOfError {
  /** Advice for the user, as the end of the message. */
  readonly advice: string
  /** A repetition can succeed a moment later. */
  readonly isRetryable?: true
  /** The operation itself fails, so that its circuit opens. The pacer deals with rejections for the rate instead. */
  readonly isOutOfOrder?: true
  /** The error concerns one instrument or interval, and is no incident: the next list of instruments will tell. */
  readonly isOfTarget?: true
  /** Every other page of the series would fail in the same way. */
  readonly isOfSeries?: true
  /** The error concerns one request. Another operation may give the same rows. */
  readonly isOfRequest?: true
}

const kinds = {
  /** HTTP 429 or code 429: every operation pauses. */
  'rate-limited': {
    advice: 'requests pause and resume by themselves; if it repeats, lower exchange.limits',
    isRetryable: true,
  },
  /** The service refuses this address: HTTP 403 or 418 without an envelope or a page. */
  blocked: { advice: 'check that the service admits this IP address' },
  /** HTTP 403 with a page of HTML: a proxy in front of the service wants a browser, or does not admit us. */
  'proxy-page': {
    advice:
      'it is no rate limit: open exchange.baseUrl from this machine; if a page comes there, too, ask its operator to admit this address, or record from another network',
    isRetryable: true,
    isOutOfOrder: true,
  },
  /** HTTP 5xx, or a code of a release window. */
  unavailable: { advice: 'the service should recover; it will be retried', isRetryable: true, isOutOfOrder: true },
  /** No response, or a connection cut before its end. */
  network: { advice: 'check the network and exchange.baseUrl', isRetryable: true, isOutOfOrder: true },
  /** No whole response came within the time allowed. */
  timeout: { advice: 'check the network; the request is sent again', isRetryable: true, isOutOfOrder: true },
  /** The body is not the service's envelope: HTML, torn JSON, nothing at all, an older envelope, a redirect. */
  malformed: {
    advice: 'check that exchange.baseUrl is the service itself, and which proxy is in front of it',
    isRetryable: true,
    isOutOfOrder: true,
  },
  /** The response has more bytes than allowed. */
  'too-large': {
    advice: 'check which proxy is in front of exchange.baseUrl: no response of the service is as large',
    isOutOfOrder: true,
  },
  /** The instrument does not exist. */
  'unknown-symbol': { advice: 'check the category and symbol', isOfTarget: true, isOfSeries: true },
  /** The instrument no longer exists. */
  'removed-symbol': {
    advice: 'the instrument was delisted; take it out of the selection',
    isOfTarget: true,
    isOfSeries: true,
  },
  /** The operation does not know the category, or no longer does. */
  'unknown-category': {
    advice:
      'the other categories are still recorded; if it does not come back, take it out of the categories in streams.* of the configuration',
    isOfSeries: true,
  },
  /** The instrument has no candles of this interval. */
  'unsupported-interval': {
    advice: 'leave the interval out for this instrument; the others are still fetched',
    isOfTarget: true,
    isOfSeries: true,
  },
  /** The operation is not offered for this instrument. */
  'unsupported-symbol': {
    advice: 'leave the instrument out of this stream; the others are still fetched',
    isOfTarget: true,
    isOfSeries: true,
  },
  /** The service has no such operation. */
  absent: {
    advice: 'this service does not have it; the other operations are used all the same',
    isOfSeries: true,
  },
  /** The service no longer serves this version of its interface. */
  'retired-version': {
    advice: 'install a newer market-recorder: this one uses an API version that the service has retired',
    isOutOfOrder: true,
    isOfSeries: true,
  },
  /** The service refuses a parameter, which is our mistake. */
  'bad-request': { advice: 'check the parameters', isOfRequest: true },
  /** Any other failure code. */
  rejected: { advice: 'see the code in the documentation of the service', isOfRequest: true },
  /** The caller gave up, or the client was closed. */
  aborted: { advice: 'nothing to do' },
} as const satisfies Record<string, KindOfError>

export type ExchangeErrorKind = keyof typeof kinds

export const errorKinds: Readonly<Record<ExchangeErrorKind, KindOfError>> = kinds

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
    super(oneLine(`${request}: ${kind}: ${details.what}; ${errorKinds[kind].advice}`), { cause: details.cause })
    this.kind = kind
    this.operation = details.operation
    this.code = details.code
    this.retryAfterMs = details.retryAfterMs
    this.retryable = details.retryable ?? (errorKinds[kind].isRetryable === true || retryableCodes.has(this.code ?? ''))
  }
}

/** Failure codes of the service. A code that is not listed is `rejected`. */
const codesOfKinds: Partial<Record<ExchangeErrorKind, readonly string[]>> = {
  'rate-limited': ['429', '25004'],
  blocked: ['40000', '25013', '22004'],
  unavailable: ['45001', '40725', '40015', '25000', '25001', '25003'],
  'unknown-symbol': ['40034', '25100'],
  'removed-symbol': ['40309'],
  'unsupported-interval': ['48001'],
  'unsupported-symbol': ['25101', '25102', '25104', '25105', '25108', '22056', '40844', '40845'],
  absent: ['40404'],
  'retired-version': ['30032'],
  'bad-request': ['400172', '40019', '40020', '40017', '40705', '25200'],
}
const kindOfCode = new Map(
  (Object.keys(codesOfKinds) as ExchangeErrorKind[]).flatMap((kind) =>
    (codesOfKinds[kind] ?? []).map((code) => [code, kind] as const),
  ),
)

/** Codes that are worth a retry, whatever their kind. Sources call 40808 a release window, or a bad parameter. */
const retryableCodes: ReadonlySet<string> = new Set(['40808'])

/** Codes that say "there is no such thing". In a request for a whole category, this thing is the category. */
const codesOfUnknownCategory: ReadonlySet<string> = new Set(['40034', '40019'])

/** Reads a failure code of the service, whatever the HTTP status it came with. */
export function kindOfFailureCode(code: string, parameters: Readonly<Record<string, string>> = {}): ExchangeErrorKind {
  const isWholeCategory = parameters['category'] !== undefined && parameters['symbol'] === undefined
  if (isWholeCategory && codesOfUnknownCategory.has(code)) return 'unknown-category'
  return kindOfCode.get(code) ?? 'rejected'
}
