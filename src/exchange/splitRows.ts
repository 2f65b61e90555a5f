/** Largest number of members of an envelope or its data. There are some five. */
const maxMembers = 100

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a] as const
const [openArray, closeArray, openObject, closeObject] = [0x5b, 0x5d, 0x7b, 0x7d] as const

/** A member of an object, or an element of an array, by its place in the text. */
interface Part {
  /** Name of a member as it is spelled; '' for an element. */
  readonly name: string
  readonly start: number
  readonly end: number
}

export interface SplitResponse {
  /** The response with an empty array for its rows. */
  readonly envelope: Buffer
  /** Texts of the first rows. */
  readonly rows: readonly Buffer[]
  readonly surplusRows: number
}

/**
 * Finds the rows of a response in its text, so that each can be parsed by itself. Returns undefined if the text has no
 * array at the place of rows. It is correct for JSON. What is wrong in any other text is in its envelope or in a row.
 *
 * @param rowsField member of the data that is the array, where the data is an object
 */
export function splitRows(body: Buffer, rowsField: string | undefined, maxRows: number): SplitResponse | undefined {
  const envelope = partsOf(body, 0, maxMembers)
  const data = envelope?.parts.findLast(({ name }) => name === 'data')
  if (data === undefined) return undefined
  const list = rowsField === undefined ? data : memberWithRows(body, data, rowsField)
  if (list === undefined || body[list.start] !== openArray) return undefined
  const rows = partsOf(body, list.start, maxRows)
  if (rows === undefined) return undefined
  return {
    envelope: Buffer.concat([body.subarray(0, list.start), Buffer.from('[]'), body.subarray(list.end)]),
    rows: rows.parts.map(({ start, end }) => body.subarray(start, end)),
    surplusRows: rows.count - rows.parts.length,
  }
}

/** Returns the named member of an object; without one, its only array. */
function memberWithRows(body: Buffer, { start }: Part, rowsField: string): Part | undefined {
  const { parts = [] } = body[start] === openObject ? (partsOf(body, start, maxMembers) ?? {}) : {}
  const named = parts.findLast(({ name }) => name === rowsField)
  const arrays = parts.filter((part) => body[part.start] === openArray)
  return named ?? (arrays.length === 1 ? arrays[0] : undefined)
}

/** Returns the first parts of the object or array at a place, and their number; undefined if it does not end. */
function partsOf(body: Buffer, place: number, max: number): { parts: Part[]; count: number } | undefined {
  const parts: Part[] = []
  let count = 0
  let at = afterSpace(body, place)
  const isObject = body[at] === openObject
  if (!isObject && body[at] !== openArray) return undefined
  const close = isObject ? closeObject : closeArray
  at = afterSpace(body, at + 1)
  if (body[at] === close) return { parts, count }
  for (;;) {
    let name = ''
    if (isObject) {
      const end = endOfValue(body, at)
      name = body.toString('utf8', at + 1, end - 1)
      at = afterSpace(body, end)
      if (body[at] !== colon) return undefined
      at = afterSpace(body, at + 1)
    }
    const end = endOfValue(body, at)
    if (end === at) return undefined
    if (++count <= max) parts.push({ name, start: at, end })
    at = afterSpace(body, end)
    if (body[at] === close) return { parts, count }
    if (body[at] !== comma) return undefined
    at = afterSpace(body, at + 1)
  }
}

function afterSpace(body: Buffer, from: number): number {
  let at = from
  while (body[at] === 0x20 || body[at] === 0x0a || body[at] === 0x0d || body[at] === 0x09) at++
  return at
}

/** Returns the end of the value that begins at a place, which is the end of the text if the value does not end. */
function endOfValue(body: Buffer, from: number): number {
  let depth = 0
  for (let at = from; at < body.length; at++) {
    const byte = body[at]
    if (byte === quote) at = endOfString(body, at)
    else if (byte === openObject || byte === openArray) depth++
    else if (depth === 0 && (byte === comma || byte === colon || byte === closeArray || byte === closeObject)) return at
    else if (byte === closeArray || byte === closeObject) depth--
    else continue
    if (depth === 0) return at + 1
  }
  return body.length
}

/** Returns the place of the quote that ends the string that begins at a place. */
function endOfString(body: Buffer, from: number): number {
  let at = from + 1
  while (at < body.length && body[at] !== quote) at += body[at] === backslash ? 2 : 1
  return at
}
