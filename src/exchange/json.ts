import { isUtf8 } from 'node:buffer'
import { isLosslessNumber, parse, stringify } from 'lossless-json'

/** Deeper than anything the service sends, shallow enough that no recursive reader runs out of stack. */
const maxDepth = 32

/**
 * Parses the JSON of a response. Most of them hold their decimals as strings. A number below the envelope may have more digits
 * than a double holds: such a text is parsed again, and each number comes as a `LosslessNumber` that holds its text.
 * Throws a `SyntaxError` that says what is wrong with the text.
 */
export function parseJson(body: Buffer): unknown {
  if (!isUtf8(body)) throw new SyntaxError('it is not UTF-8 text')
  const text = body.toString('utf8')
  const value: unknown = JSON.parse(text)
  if (!holdsNumbers(value, 0)) return value
  // The last of several equal keys wins, as in JSON.parse.
  return parse(text, null, { onDuplicateKey: ({ newValue }) => newValue })
}

/** Finds out if a number stands below the envelope, and refuses what is nested too deep. */
function holdsNumbers(value: unknown, depth: number): boolean {
  if (typeof value === 'number') return depth > 1
  if (typeof value !== 'object' || value === null) return false
  if (depth >= maxDepth) throw new SyntaxError(`it is nested more than ${maxDepth} levels deep`)
  let found = false
  // Up to the end: the depth is to be known everywhere.
  if (Array.isArray(value)) for (const inner of value) found = holdsNumbers(inner, depth + 1) || found
  else
    for (const key in value) found = holdsNumbers((value as Readonly<Record<string, unknown>>)[key], depth + 1) || found
  return found
}

/** The JSON text of a parsed value, its numbers as they were sent. */
export function jsonText(value: unknown): string {
  return stringify(value) ?? 'null'
}

/** The text of a decimal sent as a string or as a number; undefined for anything else. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (isLosslessNumber(value)) return value.value
  return typeof value === 'number' ? String(value) : undefined
}

/** The value with its numbers turned to text. */
export function numbersAsText(value: unknown): unknown {
  if (isLosslessNumber(value)) return value.value
  if (Array.isArray(value)) return value.map(numbersAsText)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, numbersAsText(inner)]))
}
