import { placesOf, unitsAt } from '../../market/values.js'

/**
 * Digits of every stored decimal, in whole units of the last one. Smaller decimals would overflow in DuckDB, which
 * multiplies up to 18 digits in 64 bits.
 */
export const precision = 38

/** Digits after the point that a column stores. `text` stands for a column whose values need more than 38 digits. */
export type DecimalScale = number | 'text'

/** Number of digits that the values of a column need. */
export interface DecimalExtent {
  /** Largest number of digits before the point. */
  readonly digits: number
  /** Largest number of digits after the point, without trailing zeros. */
  readonly scale: number
}

/** Returns the scale for values of this extent. It is as small as theirs, to leave room for products. */
export function scaleFor({ digits, scale }: DecimalExtent): DecimalScale {
  return digits + scale <= precision ? scale : 'text'
}

/** Spare digits on each side of the point. They cost nothing, and save most tables from a change of type. */
const spare = 2

/** Adds room for later values, unless that would make the column text. */
export function withSpare(extent: DecimalExtent): DecimalExtent {
  const wider = { digits: extent.digits + spare, scale: extent.scale + spare }
  return scaleFor(wider) === 'text' ? extent : wider
}

/** Returns the number of digits that two sets of values need together. */
export function widen(a: DecimalExtent, b: DecimalExtent): DecimalExtent {
  return { digits: Math.max(a.digits, b.digits), scale: Math.max(a.scale, b.scale) }
}

/** Thrown for a value that the type of its column cannot hold exactly. */
export class UnfitDecimal extends Error {
  constructor(column: string, value: string, scale: number) {
    super(`${column} holds ${value}, which DECIMAL(${precision}, ${scale}) cannot hold exactly`)
  }
}

/** Largest number of cached decimals. Prices and sizes repeat, but a larger cache would only take memory. */
const maxKnown = 16_384

/**
 * Returns a function that converts the text of a decimal to the stored form. That form counts units of the last digit
 * in 16 bytes, in two's complement, highest byte first. Equal texts may give the same array, so do not change it.
 */
export function storeDecimal(column: string, scale: number): (text: string) => Uint8Array {
  const known = new Map<string, Uint8Array>()
  return (text) => {
    const found = known.get(text)
    if (found !== undefined) return found
    const small = smallUnits(text, scale)
    const bytes = small === null ? bytesOf(unitsOf(column, text, scale)) : smallBytes(small)
    if (known.size >= maxKnown) known.clear()
    known.set(text, bytes)
    return bytes
  }
}

/** Returns the text of a stored decimal, without trailing zeros. */
export function decimalText(bytes: Uint8Array, scale: number): string {
  const units = unitsIn(bytes)
  if (scale === 0) return String(units)
  const isNegative = units < 0
  const padded = String(isNegative ? -units : units).padStart(scale + 1, '0')
  let end = padded.length
  const point = padded.length - scale
  while (end > point && padded.charCodeAt(end - 1) === zero) end--
  const text = end === point ? padded.slice(0, point) : `${padded.slice(0, point)}.${padded.slice(point, end)}`
  return isNegative ? `-${text}` : text
}

/** Removes trailing zeros from the fraction of a decimal that PostgreSQL printed. */
export function trimmedDecimal(text: string): string {
  const point = text.indexOf('.')
  if (point < 0) return text
  let end = text.length
  while (text.charCodeAt(end - 1) === zero) end--
  return text.slice(0, end - 1 === point ? point : end)
}

/** Orders decimals, given as text, by their values. */
export function compareDecimals(a: string, b: string): number {
  const places = Math.max(placesOf(a), placesOf(b))
  return Number(unitsAt(a, places) - unitsAt(b, places))
}

const zero = 0x30
const nine = 0x39
const dot = 0x2e

/** Returns the units of a decimal that an exact number can hold, as nearly all can. Returns null for any other text. */
function smallUnits(text: string, scale: number): number | null {
  let units = 0
  let digits = 0
  let fraction = -1
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === dot && fraction < 0 && digits > 0) {
      fraction = 0
      continue
    }
    if (code < zero || code > nine || (fraction >= 0 && ++fraction > scale)) return null
    units = units * 10 + (code - zero)
    digits++
  }
  const missing = scale - Math.max(fraction, 0)
  if (digits === 0 || digits + missing > 15) return null
  return units * 10 ** missing
}

function unitsOf(column: string, text: string, scale: number): bigint {
  const match = /^(-?\d+)(?:\.(\d*?)0*)?$/.exec(text)
  const fraction = match?.[2] ?? ''
  if (match === null || fraction.length > scale) throw new UnfitDecimal(column, text, scale)
  const value = BigInt(`${match[1] ?? ''}${fraction.padEnd(scale, '0')}`)
  const maxUnits = 10n ** BigInt(precision)
  if (value >= maxUnits || value <= -maxUnits) throw new UnfitDecimal(column, text, scale)
  return value
}

function smallBytes(units: number): Uint8Array {
  const bytes = new Uint8Array(16)
  let rest = units
  for (let i = 15; rest > 0; i--) {
    bytes[i] = rest % 256
    rest = Math.floor(rest / 256)
  }
  return bytes
}

function bytesOf(units: bigint): Uint8Array {
  const bytes = new Uint8Array(16)
  const view = new DataView(bytes.buffer)
  view.setBigInt64(0, units >> 64n)
  view.setBigUint64(8, BigInt.asUintN(64, units))
  return bytes
}

export function unitsIn({ buffer, byteOffset }: Uint8Array): bigint {
  const view = new DataView(buffer, byteOffset, 16)
  return (view.getBigInt64(0) << 64n) | view.getBigUint64(8)
}
