import { oneLine } from '../market/oneLine.js'
import { type Operation, type OperationTraits, operationTraits } from '../market/operation.js'

/** What a failed request tells something about. Everything that the recorder does then follows from it. */
type About = 'service' | 'version' | 'address' | 'category' | 'target' | 'request' | 'option' | 'caller'

interface Effects {
  /**
   * What the circuit of the operation learns. It opens where requests for all instruments fail. `unknown`: the request
   * told nothing about the operation.
   */
  readonly circuit: 'fails' | 'works' | 'unknown'
  /** Every other page of a series from the past would fail in the same way, so that the search ends. */
  readonly endsSeries?: true
  /** A single target proves nothing about the others. The stream fails when several fail, and none has a response. */
  readonly isOfOne?: true
}

const effectsOf: Readonly<Record<About, Effects>> = {
  /** Nothing usable comes from exchange.baseUrl, or not from this operation. */
  service: { circuit: 'fails' },
  version: { circuit: 'fails', endsSeries: true },
  /** All operations pause, for which `limits/penalty.ts` cares. */
  address: { circuit: 'unknown' },
  category: { circuit: 'works', endsSeries: true },
  /** One instrument, or one of its intervals. The next list of instruments will tell. */
  target: { circuit: 'works', endsSeries: true, isOfOne: true },
  /** One request. Another operation may give the same rows. */
  request: { circuit: 'works', isOfOne: true },
  /** The service lacks an operation that is not in its specification. Nothing failed. */
  option: { circuit: 'works', endsSeries: true },
  caller: { circuit: 'unknown' },
}

interface KindOfFailure {
  readonly about: About
  /** Advice for the user, as the end of the message. */
  readonly advice: string
  /** A repetition can succeed a moment later. */
  readonly isRetryable?: true
  /** It often ends by itself within seconds. */
  readonly isPassing?: true
  /** Codes of the service with this meaning, at any HTTP status. */
  readonly codes?: readonly string[]
}

/**
 * What each failure means, and what to do about it. One row decides how the client, the pollers, the search of the past
 * and the status report treat it. Every target that only fails is requested less often (`collect/schedule/failures.ts`).
 */
const kinds = {
  'rate-limited': {
    about: 'address',
    advice: 'requests pause and resume by themselves; if it repeats, lower exchange.limits',
    isRetryable: true,
    codes: ['429', '25004'],
  },
  /** The service refuses this address: also HTTP 403 or 418 without a code that is listed, and without a page. */
  blocked: {
    about: 'address',
    advice: 'check that the service admits this IP address',
    codes: ['40000', '25013', '22004'],
  },
  /** HTTP 403 with a page of HTML: a proxy in front of the service wants a browser, or does not admit us. */
  'proxy-page': {
    about: 'service',
    advice:
      'it is no rate limit: open exchange.baseUrl from this machine; if a page comes there, too, ask its operator to admit this address, or record from another network',
    isRetryable: true,
  },
  /** A code of a release window, or HTTP 5xx with a code that is not listed or with none. */
  unavailable: {
    about: 'service',
    advice: 'the service should recover; it will be retried',
    isRetryable: true,
    isPassing: true,
    codes: ['45001', '40725', '40015', '25000', '25001', '25003'],
  },
  /** No response, or a connection cut before its end. */
  network: {
    about: 'service',
    advice: 'check the network and exchange.baseUrl',
    isRetryable: true,
    isPassing: true,
  },
  /** No whole response came within the time allowed. */
  timeout: {
    about: 'service',
    advice: 'the network, the service or this machine is slow; the request is sent again',
    isRetryable: true,
    isPassing: true,
  },
  /** The body is not the service's envelope: HTML, torn JSON, nothing at all, an older envelope, a redirect. */
  malformed: {
    about: 'service',
    advice: 'check that exchange.baseUrl is the service itself, and which proxy is in front of it',
    isRetryable: true,
  },
  /** The time of the response is neither that of our clock nor that of the responses before. */
  'wrong-clock': {
    about: 'service',
    advice:
      "set this machine's clock; if it is right, the service's is wrong; when all responses agree for half a minute, they are believed",
    isRetryable: true,
  },
  /** An operation of the specification does not exist: HTTP 404 or its code. Another one is `absent`. */
  'no-such-path': {
    about: 'service',
    advice:
      'check that exchange.baseUrl is the address of the service alone, such as https://api.example.com, without a path; if only this operation is missing, switch its stream off in streams.*',
    isRetryable: true,
    codes: ['40404'],
  },
  /** The response has more bytes than allowed. */
  'too-large': {
    about: 'service',
    advice: 'check which proxy is in front of exchange.baseUrl: no response of the service is as large',
  },
  'retired-version': {
    about: 'version',
    advice: 'install a newer market-recorder: this one uses an API version that the service has retired',
    codes: ['30032'],
  },
  /** The operation does not know the category, or no longer does. */
  'unknown-category': {
    about: 'category',
    advice:
      'the other categories are still recorded; if it does not come back, take it out of the categories in streams.* of the configuration',
  },
  /** A list without a row, although every category has instruments. */
  'empty-list': {
    about: 'category',
    advice:
      'check that exchange.baseUrl is the service that you mean; if it has nothing of this category, take it out of the categories in streams.* of the configuration',
  },
  'unknown-symbol': { about: 'target', advice: 'check the category and symbol', codes: ['40034', '25100'] },
  'removed-symbol': {
    about: 'target',
    advice: 'the instrument was delisted; take it out of the selection',
    codes: ['40309'],
  },
  'unsupported-interval': {
    about: 'target',
    advice: 'leave the interval out for this instrument; the others are still fetched',
    codes: ['48001'],
  },
  'unsupported-symbol': {
    about: 'target',
    advice: 'leave the instrument out of this stream; the others are still fetched',
    codes: ['25101', '25102', '25104', '25105', '25108', '22056', '40844', '40845'],
  },
  /** Fewer than half of the rows can be understood. */
  unreadable: {
    about: 'request',
    advice:
      'recorder.rejected_row has the rows with the reasons; if all responses are like this, check exchange.baseUrl, or install a newer market-recorder',
  },
  /** The service refuses a parameter, which is our mistake. */
  'bad-request': {
    about: 'request',
    advice: 'check the parameters',
    codes: ['400172', '40019', '40020', '40017', '40705', '25200'],
  },
  /** Any other failure code. Sources call 40808 a release window, or a bad parameter. */
  rejected: { about: 'request', advice: 'see the code in the documentation of the service', codes: ['40808'] },
  absent: { about: 'option', advice: 'this service does not have it; the other operations are used all the same' },
  /** A page, or HTTP 404 without the service's envelope, for such an operation. A proxy may have sent it. */
  'perhaps-absent': {
    about: 'option',
    advice: 'check which proxy is in front of exchange.baseUrl; the other operations are used all the same',
  },
  /** The right to send was lost before the request left. */
  'not-sent': { about: 'caller', advice: 'it is sent once this recorder may send again', isRetryable: true },
  /** The caller gave up, or the client was closed. */
  aborted: { about: 'caller', advice: 'nothing to do' },
} as const satisfies Record<string, KindOfFailure>

export type ExchangeErrorKind = keyof typeof kinds

export type FailureTraits = KindOfFailure & Effects

export const failureTraits = Object.fromEntries(
  Object.entries(kinds).map(([kind, row]) => [kind, { ...row, ...effectsOf[row.about] }]),
) as Readonly<Record<ExchangeErrorKind, FailureTraits>>

const kindsOfCodes = new Map(
  (Object.keys(kinds) as ExchangeErrorKind[]).flatMap((kind) =>
    (failureTraits[kind].codes ?? []).map((code) => [code, kind] as const),
  ),
)

/** Codes that are worth a retry, whatever their kind. */
const retryableCodes: ReadonlySet<string> = new Set(['40808'])

/** Codes that say "there is no such thing". In a request for a whole category, this thing is the category. */
const codesOfUnknownCategory: ReadonlySet<string> = new Set(['40034', '40019'])

interface FailedRequest {
  readonly operation: Operation
  readonly parameters: Readonly<Record<string, string>>
}

/** Reads a failure code of the service. The HTTP status decides only where the code is not known. */
export function kindOfFailure(
  { operation, parameters }: FailedRequest,
  code: string,
  httpStatus: number,
): ExchangeErrorKind {
  if (codesOfUnknownCategory.has(code) && isOfCategory(parameters)) return 'unknown-category'
  const kind = kindsOfCodes.get(code) ?? kindOfStatus(httpStatus)
  // A service may lack what the specification does not name. Without any other operation it is not the service.
  return kind === 'no-such-path' && mayLack(operation) ? 'absent' : kind
}

function kindOfStatus(httpStatus: number): ExchangeErrorKind {
  if (httpStatus === 404) return 'no-such-path'
  if (httpStatus === 403 || httpStatus === 418) return 'blocked'
  return httpStatus >= 500 ? 'unavailable' : 'rejected'
}

export function mayLack(operation: Operation): boolean {
  const traits: OperationTraits = operationTraits[operation]
  return traits.mayLack === true
}

/** Returns true if a request is for all instruments of a category. */
function isOfCategory(parameters: FailedRequest['parameters']): boolean {
  return parameters['category'] !== undefined && parameters['symbol'] === undefined
}

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
  /** The message without the request: equal for requests that fail for the same cause. */
  readonly reason: string
  readonly operation: Operation
  readonly code: string | undefined
  readonly retryAfterMs: number | undefined
  readonly retryable: boolean

  constructor(kind: ExchangeErrorKind, details: ExchangeErrorDetails) {
    const request = [details.operation, ...Object.values(details.parameters)].join(' ')
    const reason = `${kind}: ${details.what}; ${failureTraits[kind].advice}`
    super(oneLine(`${request}: ${reason}`), { cause: details.cause })
    this.kind = kind
    this.reason = oneLine(reason)
    this.operation = details.operation
    this.code = details.code
    this.retryAfterMs = details.retryAfterMs
    this.retryable =
      details.retryable ?? (failureTraits[kind].isRetryable === true || retryableCodes.has(this.code ?? ''))
  }
}
