import { isLosslessNumber, parse, stringify } from 'lossless-json'
import { isUtf8 } from 'node:buffer'
import { bounds } from '../market/bounds.js'
import { type Operation, type OperationTraits, operationTraits } from '../market/operation.js'
import type { Quote } from '../market/quote.js'
import { serviceMs, type ServiceMs } from '../market/values.js'
import { messageOf } from '../runtime/text.js'
import { ExchangeError, type ExchangeErrorKind, kindOfFailure, mayLack } from './errors.js'
import { type SplitResponse, splitRows } from './splitRows.js'

/**
 * Parses the JSON of a response. Most responses hold their decimals as strings. A number below the envelope may have
 * more digits than a double holds. A text with such numbers is parsed again, and each becomes a `LosslessNumber`, which
 * holds its text. Throws a `SyntaxError` that says what is wrong with the text.
 *
 * @param depth of the text in its response: 0 for the whole, `rowDepth` for a row
 */
export function parseJson(text: string, depth = 0): unknown {
  const value: unknown = JSON.parse(text)
  if (!holdsNumbers(value, depth)) return value
  try {
    // The last of several equal keys wins, as in JSON.parse.
    return parse(text, null, { onDuplicateKey: ({ newValue }) => newValue })
  } catch (error) {
    // No look at the value shows how deep another one is that had the same key.
    throw error instanceof RangeError ? new SyntaxError(tooDeep) : error
  }
}

const tooDeep = `it is nested more than ${bounds.jsonDepth} levels deep`

/** Returns true if there is a number below the envelope. Throws a `SyntaxError` if the value is nested too deep. */
function holdsNumbers(value: unknown, depth: number): boolean {
  if (typeof value === 'number') return depth > 1
  if (typeof value !== 'object' || value === null) return false
  if (depth >= bounds.jsonDepth) throw new SyntaxError(tooDeep)
  let found = false
  // The walk does not stop at the first number, because the depth must be checked everywhere.
  if (Array.isArray(value)) for (const inner of value) found = holdsNumbers(inner, depth + 1) || found
  else
    for (const key in value) found = holdsNumbers((value as Readonly<Record<string, unknown>>)[key], depth + 1) || found
  return found
}

/** Parses JSON from outside, as `parseJson` does. */
export function parseText(text: Buffer, depth = 0): unknown {
  if (!isUtf8(text)) throw new SyntaxError('it is not UTF-8 text')
  return parseJson(text.toString('utf8'), depth)
}

/** Returns the JSON text of a parsed value, with its numbers as they were sent. */
export function jsonText(value: unknown): string {
  return stringify(value) ?? 'null'
}

/** Returns the text of a decimal that was sent as a string or as a number; undefined for anything else. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (isLosslessNumber(value)) return value.value
  return typeof value === 'number' ? String(value) : undefined
}

/** Returns the value with its exact numbers turned into text. */
export function numbersAsText(value: unknown): unknown {
  if (isLosslessNumber(value)) return value.value
  if (Array.isArray(value)) return value.map(numbersAsText)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, numbersAsText(inner)]))
}

/** Limits of an operation's responses, which are far above any genuine response. */
interface ResponseLimits {
  /** Size limit of the body after decompression. A larger body is not read. */
  readonly bytes: number
  /** Number of rows that are read. Further rows are only counted. */
  readonly rows: number
}

const mebibyte = 1_048_576
const longest = { bytes: bounds.responseBytes, rows: bounds.responseRows }
/** Each closed candle that changes leaves its old values in the database. */
const fewCandles = { bytes: mebibyte, rows: 2_000 }
const oneBook = { bytes: bounds.rowBytes, rows: 1 }

/** The service's longest lists have some 3,400 rows in 1.7 MB, books 1,000 levels, fills 100 rows, candles 1,000. */
const limitsOfSome: Readonly<Partial<Record<Operation, ResponseLimits>>> = {
  instruments: longest,
  tickers: longest,
  orderbook: oneBook,
  'rpi-orderbook': oneBook,
  fills: { bytes: mebibyte, rows: 1_000 },
  candles: fewCandles,
  'history-candles': fewCandles,
}

export function responseLimits(operation: Operation): ResponseLimits {
  return limitsOfSome[operation] ?? { bytes: 2 * mebibyte, rows: 10_000 }
}

/** A response of HTTP, before its envelope is read. */
export interface RawResponse {
  readonly status: number
  readonly body: Buffer
  /** Requests left of the operation's limit in this second; undefined if the service does not tell. */
  readonly remaining: number | undefined
  readonly retryAfterMs: number | undefined
  /** Address that a redirect points to. */
  readonly location: string | undefined
}

export interface ServiceResponse {
  /** Time by the service's clock; null for an empty body, which means that there are no candles yet. */
  readonly requestTime: ServiceMs | null
  /** The rows of the response. Those of a long one are `Buffer`s of JSON. An operation that gives one object has one row. */
  readonly rows: readonly unknown[]
  /** Number of rows beyond the limit of the operation. */
  readonly surplusRows: number
  /** Names the next page of older rows, if the operation gives a cursor. */
  readonly cursor?: string
}

interface Request {
  readonly operation: Operation
  readonly parameters: Readonly<Record<string, string>>
}

const byteOrderMark = Buffer.from('\ufeff')

const candleOperations: ReadonlySet<Operation> = new Set<Operation>(['candles', 'history-candles'])
/**
 * Reads the envelope. Its `code` tells success from failure at any HTTP status, because the service sends failures with
 * HTTP 200 as well as 400. Throws an `ExchangeError` for everything that is not rows.
 *
 * @param quote takes foreign text into a message
 */
export function readResponse(quote: Quote, request: Request, raw: RawResponse): ServiceResponse {
  const fail = (
    kind: ExchangeErrorKind,
    what: string,
    more: { code?: string; cause?: unknown; retryable?: boolean } = {},
  ) =>
    new ExchangeError(kind, {
      ...request,
      ...more,
      what,
      ...(raw.retryAfterMs === undefined ? {} : { retryAfterMs: raw.retryAfterMs }),
    })

  const { rows: maxRows } = responseLimits(request.operation)
  const { isOneRow, listsCategory, rowsField }: OperationTraits = operationTraits[request.operation]
  if (raw.status === 429) throw fail('rate-limited', 'HTTP 429, too many requests', { code: '429' })
  if (raw.body.length === 0) {
    // The service was seen to send an empty body right after a listing. Any other one comes from a proxy.
    if (raw.status === 200 && candleOperations.has(request.operation))
      return { requestTime: null, rows: [], surplusRows: 0 }
    throw fail(...withoutEnvelope(quote, request.operation, raw, 'an empty body'))
  }

  let split: SplitResponse | undefined
  let envelope: unknown
  try {
    const body = raw.body.subarray(byteOrderMark.equals(raw.body.subarray(0, 3)) ? 3 : 0)
    const findRows = () => (isOneRow === true ? undefined : splitRows(body, rowsField, maxRows))
    ;({ split, envelope } = parseBody(body, findRows))
  } catch (error) {
    const [kind, what, more] = withoutEnvelope(quote, request.operation, raw, notJson(quote, raw.body, error))
    throw fail(kind, what, { ...more, cause: error })
  }
  if (!isRecord(envelope) || typeof envelope['code'] !== 'string') {
    if (isRecord(envelope) && textOf(envelope['code']) === '429')
      throw fail('rate-limited', 'code 429', { code: '429' })
    throw fail(...withoutEnvelope(quote, request.operation, raw, describeOtherEnvelope(quote, envelope)))
  }
  const code = quote(envelope['code'], 100)
  if (code !== '00000') {
    const what = `code ${code} "${quote(textOf(envelope['msg']) ?? '', 100)}" (HTTP ${raw.status})`
    throw fail(kindOfFailure(request, code, raw.status), what, { code })
  }
  const requestTime = serviceMs(Number(textOf(envelope['requestTime']) ?? Number.NaN))
  if (!Number.isSafeInteger(requestTime) || requestTime <= 0)
    throw fail('malformed', 'a success without a requestTime in milliseconds', { code })
  const { data } = envelope
  if (isOneRow === true && !isRecord(data)) throw fail('malformed', 'a success whose data is not an object', { code })
  if (isOneRow === true) return { requestTime, rows: [data], surplusRows: 0 }
  const rows = split?.rows ?? rowsOf(rowsField, data)
  if (rows === undefined) throw fail('malformed', 'a success without an array of rows', { code })
  if (listsCategory === true && rows.length === 0) throw fail('empty-list', 'a list without a row', { code })
  const cursor = isRecord(data) ? textOf(data['cursor']) : undefined
  if (cursor !== undefined && cursor.length > bounds.cursorLength)
    throw fail('malformed', `a cursor of ${cursor.length} characters`, { code })
  return {
    requestTime,
    rows: rows.slice(0, maxRows),
    surplusRows: split?.surplusRows ?? Math.max(0, rows.length - maxRows),
    ...(cursor === undefined || cursor === '' ? {} : { cursor }),
  }
}

/**
 * Parses a response as a whole. One that is too long for that, or that is no JSON, is parsed without its rows: one of
 * them may be at fault. Throws a `SyntaxError` if these cannot be found.
 */
function parseBody(body: Buffer, findRows: () => SplitResponse | undefined) {
  let problem = new SyntaxError(`its ${body.length} bytes have no whole array of rows`)
  try {
    if (body.length <= bounds.rowBytes) return { envelope: parseText(body), split: undefined }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    problem = error
  }
  const split = findRows()
  if (split === undefined || split.envelope.length > bounds.rowBytes) throw problem
  return { envelope: parseText(split.envelope), split }
}

/**
 * Returns the rows of a success; undefined if it holds none. Where they stand in an object, further arrays may stand
 * beside them, and null means that there is no row. A service that names the field otherwise has a single array there.
 */
function rowsOf(rowsField: string | undefined, data: unknown): readonly unknown[] | undefined {
  if (rowsField === undefined) return Array.isArray(data) ? data : undefined
  if (!isRecord(data)) return undefined
  const named = data[rowsField]
  if (named === null) return []
  const [rows, ...others] = named === undefined ? Object.values(data).filter(Array.isArray) : [named]
  return Array.isArray(rows) && others.length === 0 ? rows : undefined
}

/** Tells the meaning of a response without the service's envelope, by its HTTP status. */
function withoutEnvelope(
  quote: Quote,
  operation: Operation,
  { status, body, location }: RawResponse,
  what: string,
): [ExchangeErrorKind, string, { retryable?: boolean }?] {
  const described = `HTTP ${status} with ${what}`
  if (status >= 500) return ['unavailable', described]
  if (status === 403 && isPage(body)) return ['proxy-page', described]
  if (status === 403 || status === 418) return ['blocked', described]
  if (status >= 300 && status < 400)
    return ['malformed', `a redirect to ${quote(location ?? 'nowhere', 200)}`, { retryable: false }]
  const isMissing = status === 404 || (status === 200 && isPage(body))
  if (isMissing && mayLack(operation)) return ['perhaps-absent', described]
  return [status === 404 ? 'no-such-path' : 'malformed', described]
}

function isPage(body: Buffer): boolean {
  return startOf(body).startsWith('<')
}

function startOf(body: Buffer): string {
  return body.subarray(0, 20_000).toString('utf8').trim()
}

function notJson(quote: Quote, body: Buffer, error: unknown): string {
  const start = startOf(body)
  if (start.startsWith('<')) {
    // The text of the page says more than its first tags.
    const text = quote(start.replace(/<(script|style)\b.*?(<\/\1>|$)/gis, ' ').replace(/<[^>]*>?/g, ' '), 100)
    return `HTML instead of JSON (${text === '' ? quote(start, 60) : text})`
  }
  // The error may quote a piece of the body, in which a secret is no longer known as one.
  const problem = quote(messageOf(error).replace(/, (\.\.\.)?".*$/s, ''), 120)
  // Pieces of a list differ from response to response, and messages of one cause should not.
  return `a body that is not JSON (${problem}${/^[[{]/.test(start) ? '' : `; it starts with "${quote(start, 60)}"`})`
}

function describeOtherEnvelope(quote: Quote, envelope: unknown): string {
  if (!isRecord(envelope)) return 'JSON that is not an envelope'
  if ('err_code' in envelope || 'err_msg' in envelope)
    return `an older envelope (err_code ${quote(textOf(envelope['err_code']) ?? '', 40)} "${quote(textOf(envelope['err_msg']) ?? '', 80)}")`
  if ('code' in envelope)
    return `a code that is not a string (${textOf(envelope['code']) ?? 'none'} "${quote(textOf(envelope['msg']) ?? '', 80)}")`
  return 'JSON without a code'
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
