import { isLosslessNumber, parse, stringify } from 'lossless-json'

/**
 * Parses JSON so that no number loses a digit: it comes as a `LosslessNumber`, which holds its text. Throws a `SyntaxError` that
 * says what is wrong with the text.
 */
export function parseLossless(text: string): unknown {
  // The last of several equal keys wins, as in JSON.parse.
  return parse(text, null, { onDuplicateKey: ({ newValue }) => newValue })
}

/** The same for text that may hold numbers and mostly holds none. */
export function parseText(text: string): unknown {
  return anyNumber.test(text) ? parseLossless(text) : (JSON.parse(text) as unknown)
}

/** Finds every number that is no part of a string, and sometimes one that is: the parsers agree about strings. */
const anyNumber = /[[:,{\s]-?\d/

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
