import { oneLine } from '../market/values.js'
import type { Operation } from '../market/stream.js'

/**
 * - `rate-limited`: HTTP 429 or code 429: every operation pauses
 * - `blocked`: the service refuses this address (HTTP 403 or 418 without an envelope or a page)
 * - `proxy-page`: HTTP 403 with a page of HTML: a proxy in front of the service wants to see a browser, or does not admit us
 * - `unavailable`: HTTP 5xx, or a code of a release window
 * - `network`: no response, or a connection cut before its end
 * - `timeout`: not answered whole within the time allowed
 * - `malformed`: a response that is not the service's envelope: HTML, torn, empty, an older envelope, a redirect
 * - `too-large`: more bytes than allowed
 * - `unknown-symbol`, `removed-symbol`: the instrument does not exist, or no longer does
 * - `unknown-category`: the operation does not know the whole category, or no longer does
 * - `unsupported-interval`: the instrument has no candles of this interval
 * - `unsupported-symbol`: the operation is not offered for this instrument
 * - `absent`: the service has no such operation
 * - `retired-version`: the service no longer serves this version of its interface
 * - `bad-request`: a parameter the service refuses: our mistake
 * - `rejected`: any other failure code
 * - `aborted`: the caller gave up, or the client was closed
 */
const exchangeErrorKinds = [
  'rate-limited',
  'blocked',
  'proxy-page',
  'unavailable',
  'network',
  'timeout',
  'malformed',
  'too-large',
  'unknown-symbol',
  'removed-symbol',
  'unknown-category',
  'unsupported-interval',
  'unsupported-symbol',
  'absent',
  'retired-version',
  'bad-request',
  'rejected',
  'aborted',
] as const
export type ExchangeErrorKind = (typeof exchangeErrorKinds)[number]

interface ExchangeErrorDetails {
  readonly operation: Operation
  readonly parameters: Readonly<Record<string, string>>
  /** The event in a few words, for the message. */
  readonly what: string
  readonly status?: number
  readonly code?: string
  readonly retryAfterMs?: number
  /** Overrides what the kind says. */
  readonly retryable?: boolean
  readonly cause?: unknown
}

const advice: Record<ExchangeErrorKind, string> = {
  'rate-limited': 'requests pause and resume by themselves; if it repeats, lower exchange.limits',
  blocked: 'check that the service admits this IP address',
  'proxy-page':
    'it is no rate limit: open exchange.baseUrl from this machine; if a page comes there, too, ask its operator to admit this address, or record from another network',
  unavailable: 'the service should recover; it will be retried',
  network: 'check the network and exchange.baseUrl',
  timeout: 'check the network; the request is sent again',
  malformed: 'check that exchange.baseUrl is the service itself, and which proxy is in front of it',
  'too-large': 'check which proxy is in front of exchange.baseUrl: no response of the service is as large',
  'unknown-symbol': 'check the category and symbol',
  'removed-symbol': 'the instrument was delisted; take it out of the selection',
  'unknown-category':
    'the other categories are still recorded; if it does not come back, take it out of the categories in streams.* of the configuration',
  'unsupported-interval': 'leave the interval out for this instrument; the others are still fetched',
  'unsupported-symbol': 'leave the instrument out of this stream; the others are still fetched',
  absent: 'this service does not have it; the other operations are used all the same',
  'retired-version': 'install a newer market-recorder: this one uses an API version that the service has retired',
  'bad-request': 'check the parameters',
  rejected: 'see the code in the documentation of the service',
  aborted: 'nothing to do',
}

/** Kinds for which the same request can succeed a moment later. */
const retryableKinds: ReadonlySet<ExchangeErrorKind> = new Set([
  'rate-limited',
  'unavailable',
  'network',
  'timeout',
  'malformed',
  'proxy-page',
])

/** The one error of this folder. Its message is one line: which request, what happened, what to do. */
export class ExchangeError extends Error {
  override readonly name = 'ExchangeError'
  readonly kind: ExchangeErrorKind
  readonly operation: Operation
  readonly parameters: Readonly<Record<string, string>>
  readonly status: number | undefined
  readonly code: string | undefined
  readonly retryAfterMs: number | undefined
  readonly retryable: boolean

  constructor(kind: ExchangeErrorKind, details: ExchangeErrorDetails) {
    const request = [details.operation, ...Object.values(details.parameters)].join(' ')
    super(oneLine(`${request}: ${kind}: ${details.what}; ${advice[kind]}`), { cause: details.cause })
    this.kind = kind
    this.operation = details.operation
    this.parameters = details.parameters
    this.status = details.status
    this.code = details.code
    this.retryAfterMs = details.retryAfterMs
    this.retryable = details.retryable ?? retryableKinds.has(kind)
  }
}

const kindOfCode: Readonly<Record<string, ExchangeErrorKind>> = {
  '429': 'rate-limited',
  '45001': 'unavailable',
  '40725': 'unavailable',
  // A release window by one source, a bad parameter by another.
  '40808': 'rejected',
  '40015': 'unavailable',
  '40034': 'unknown-symbol',
  '25100': 'unknown-symbol',
  '40309': 'removed-symbol',
  '48001': 'unsupported-interval',
  '30032': 'retired-version',
  '400172': 'bad-request',
  '40019': 'bad-request',
  '40020': 'bad-request',
  '40017': 'bad-request',
  '40705': 'bad-request',
  '25200': 'bad-request',
  '25000': 'unavailable',
  '25001': 'unavailable',
  '25003': 'unavailable',
  '25004': 'rate-limited',
  '40000': 'blocked',
  '25013': 'blocked',
  '22004': 'blocked',
  '40404': 'absent',
  ...Object.fromEntries(
    ['25101', '25102', '25104', '25105', '25108', '22056', '40844', '40845'].map((code) => [
      code,
      'unsupported-symbol',
    ]),
  ),
}

/** Codes that are worth a repetition whatever their kind says. */
export const retryableCodes: ReadonlySet<string> = new Set(['40808'])

/** Codes that say "there is no such thing": of a request for a whole category, the category is what there is not. */
const codesOfUnknownCategory: ReadonlySet<string> = new Set(['40034', '40019'])

/** Reads a failure code of the service, whatever the HTTP status it came with. */
export function kindOfFailureCode(code: string, parameters: Readonly<Record<string, string>> = {}): ExchangeErrorKind {
  const isWholeCategory = parameters['category'] !== undefined && parameters['symbol'] === undefined
  if (isWholeCategory && codesOfUnknownCategory.has(code)) return 'unknown-category'
  return Object.hasOwn(kindOfCode, code) ? (kindOfCode[code] ?? 'rejected') : 'rejected'
}
