import { isUtf8 } from 'node:buffer'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type ResponseBounds, maxEnvelopeBytes, maxRowBytes } from './bounds.js'
import { parseLossless, parseText } from './lossless.js'
import { type FieldNames, pickFields } from './pickedFields.js'
import { inspect, type JsonList } from './shape.js'
import { parseNumbersAsText } from './textNumbers.js'

/** Deeper than anything the service sends, shallow enough that no recursive reader runs out of stack. */
const maxDepth = 32
/** Up to this size a response is parsed in one go: within two or three milliseconds. */
const shortBytes = 32_768
/** Rows that are parsed in one go. */
const chunkBytes = 32_768
/** The same where only some fields are picked. */
const pickedBytes = 131_072

/** A row that is too long to be parsed. */
export class UnparsedRow {
  readonly bytes: Buffer

  constructor(bytes: Buffer) {
    this.bytes = bytes
  }
}

export interface ParsedResponse {
  /** The parsed JSON. Instead of a row that is too long, its array holds an `UnparsedRow`. */
  readonly value: unknown
  /** How many elements of the array of rows are beyond the bound and were not looked at. */
  readonly surplusRows: number
  /** The same with every number as it was sent, where `value` has the numbers of its data as text. */
  readonly exact?: () => unknown
}

/**
 * Parses a response. A long one is taken apart at the commas between its rows and parsed a few rows at a time, so that
 * everything else gets its turn in between. The result is the same: each piece has to be valid JSON, and so has what is left
 * without them. Throws a `SyntaxError` that says what is wrong with the text.
 *
 * @param only the fields of the rows that are needed: of a long list the others may be missing in what is returned
 */
export async function parseResponse(body: Buffer, bounds: ResponseBounds, only?: FieldNames): Promise<ParsedResponse> {
  // Not even looked at: nothing of the market is as long, and the parser's turns are bounded by it.
  if (body.length > bounds.bytes) throw new SyntaxError(`it has more than ${bounds.bytes} bytes`)
  const isShort = body.length <= shortBytes
  const { depth, holdsNumbers, list } = await inspect(body, isShort ? 0 : bounds.rows)
  if (depth > maxDepth) throw new SyntaxError(`it is nested more than ${maxDepth} levels deep`)
  if (!isUtf8(body)) throw new SyntaxError('it is not UTF-8 text')
  if (isShort) return parseWhole(body.toString('utf8'), holdsNumbers)
  if (list === null) {
    // One object, such as an order book. Its bound in bytes keeps it short.
    if (bounds.rows > 1 && body.length > maxRowBytes)
      throw new SyntaxError(`it has ${body.length} bytes and is no list of rows`)
    await nextTurn()
    return parseWhole(body.toString('utf8'), holdsNumbers)
  }
  if (body.length - (list.end - list.start) > maxEnvelopeBytes)
    throw new SyntaxError(`it holds more than ${maxEnvelopeBytes} bytes besides its rows`)
  // Whatever stands around the rows, with an empty list in their place.
  const around = Buffer.concat([body.subarray(0, list.start), body.subarray(list.end)])
  const envelope = JSON.parse(around.toString('utf8')) as unknown
  if (!isRecord(envelope)) throw new SyntaxError('it is not an object with rows')
  const name = Object.keys(envelope).find((key) => Array.isArray(envelope[key]))
  if (name === undefined) throw new SyntaxError('it is not an object with rows')
  const parse = holdsNumbers ? parseText : JSON.parse
  const places = placesOf(list, bounds.rows)
  const rows = await (only === undefined ? parseRows(body, places, parse) : pickRows(body, places, parse, only))
  return { value: { ...envelope, [name]: rows }, surplusRows: list.elements - places.count }
}

function parseWhole(text: string, holdsNumbers: boolean): ParsedResponse {
  if (!holdsNumbers) return { value: JSON.parse(text) as unknown, surplusRows: 0 }
  let parsed: unknown
  const exact = () => (parsed ??= parseLossless(text))
  try {
    return { value: parseNumbersAsText(text), surplusRows: 0, exact }
  } catch {
    // The other parser says what is wrong with it.
    return { value: exact(), surplusRows: 0 }
  }
}

/** The rows that are read: how many, and where row i begins and ends. */
interface RowPlaces {
  readonly count: number
  readonly begins: (i: number) => number
  readonly ends: (i: number) => number
}

/** A row ends at the next comma or the end of the array. */
function placesOf({ start, end, commas, elements }: JsonList, maxRows: number): RowPlaces {
  return {
    count: Math.min(elements, maxRows),
    begins: (i) => (i === 0 ? start : (commas[i - 1] as number) + 1),
    ends: (i) => (i < commas.length ? (commas[i] as number) : end),
  }
}

async function parseRows(body: Buffer, places: RowPlaces, parse: (text: string) => unknown) {
  const rows: unknown[] = []
  while (rows.length < places.count) {
    parseSome(body, places, parse, rows)
    await nextTurn()
  }
  return rows
}

/** Adds a row, and those behind it that are parsed in one go with it. */
function parseSome(
  body: Buffer,
  { count, begins, ends }: RowPlaces,
  parse: (text: string) => unknown,
  rows: unknown[],
): void {
  const first = rows.length
  let next = first + 1
  if (ends(first) - begins(first) > maxRowBytes) {
    rows.push(new UnparsedRow(body.subarray(begins(first), ends(first))))
    return
  }
  while (next < count && ends(next) - begins(first) <= chunkBytes) next++
  for (const row of parseElements(body.toString('utf8', begins(first), ends(next - 1)), next - first, parse))
    rows.push(row)
}

function parseElements(text: string, count: number, parse: (text: string) => unknown): readonly unknown[] {
  const elements = parse(`[${text}]`)
  // A blank between two commas, or after the last one.
  if (!Array.isArray(elements) || elements.length !== count) throw new SyntaxError('a row is missing in its list')
  return elements as unknown[]
}

/** Of each row these fields; where they are not simply there the whole row, and those behind it: they may be like it. */
async function pickRows(body: Buffer, places: RowPlaces, parse: (text: string) => unknown, only: FieldNames) {
  const rows: unknown[] = []
  let turnEnd = places.begins(0) + pickedBytes
  while (rows.length < places.count) {
    const [begin, end] = [places.begins(rows.length), places.ends(rows.length)]
    const picked = end - begin > maxRowBytes ? undefined : pickFields(body, begin, end, only)
    if (picked === undefined) parseSome(body, places, parse, rows)
    else rows.push(picked)
    if (picked !== undefined && end < turnEnd) continue
    await nextTurn()
    turnEnd = places.ends(rows.length - 1) + pickedBytes
  }
  return rows
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
