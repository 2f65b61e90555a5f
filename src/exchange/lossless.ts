import { isUtf8 } from 'node:buffer'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { isLosslessNumber, parse, stringify } from 'lossless-json'

/** Deeper than anything the service sends, shallow enough that no recursive reader runs out of stack. */
const maxDepth = 32

/** Above this size the steps of parsing run in turns of their own, so that one answer is not one long stall. */
const turnBytes = 262_144

const quote = 0x22
const backslash = 0x5c
const minus = 0x2d
const zero = 0x30
const nine = 0x39

/**
 * Parses JSON so that no number loses a digit: a number inside the envelope's data comes as a `LosslessNumber`, which
 * holds its text. Numbers of the envelope itself (depth 1) may come as JavaScript numbers.
 * Throws a `SyntaxError` that says what is wrong with the text.
 */
export async function parseLossless(body: Buffer): Promise<unknown> {
  const shape = inspect(body)
  if (shape.depth > maxDepth) throw new SyntaxError(`it is nested more than ${maxDepth} levels deep`)
  if (body.length > turnBytes) await nextTurn()
  if (!isUtf8(body)) throw new SyntaxError('it is not UTF-8 text')
  const text = body.toString('utf8')
  // Most answers hold all numbers as strings, and the built-in parser is ten times as fast.
  if (!shape.holdsNumbers) return JSON.parse(text) as unknown
  // The last of several equal keys wins, as in JSON.parse.
  return parse(text, null, { onDuplicateKey: ({ newValue }) => newValue })
}

/** The JSON text of a parsed value, its numbers as they were sent. */
export function losslessText(value: unknown): string {
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

/** One pass over the bytes, without judging their syntax: how deep they nest and whether numbers stand below depth 1. */
function inspect(body: Buffer): { depth: number; holdsNumbers: boolean } {
  let depth = 0
  let deepest = 0
  let holdsNumbers = false
  let inString = false
  for (let i = 0; i < body.length; i++) {
    const byte = body[i] as number
    if (inString) {
      if (byte === backslash) i++
      else if (byte === quote) inString = false
    } else if (byte === quote) {
      inString = true
    } else if (byte === 0x7b || byte === 0x5b) {
      depth++
      if (depth > deepest) deepest = depth
    } else if (byte === 0x7d || byte === 0x5d) {
      depth--
    } else if (depth > 1 && (byte === minus || (byte >= zero && byte <= nine))) {
      holdsNumbers = true
    }
  }
  return { depth: deepest, holdsNumbers }
}
