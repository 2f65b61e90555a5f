/**
 * How the decimals of a column are written: as whole numbers of their last digit, with so many digits after the point. Of 18
 * digits and less they are 64-bit numbers, which multiply with each other in DuckDB without an overflow; else 128-bit ones.
 * `text` where no decimal type holds all of them.
 */
export type DecimalShape = DecimalType | 'text'

export interface DecimalType {
  readonly precision: 18 | 38
  readonly scale: number
}

/** What a column has to have room for. */
export interface DecimalExtent {
  /** Most digits before the point. */
  readonly digits: number
  /** Most digits after it, zeros at the end not counted. */
  readonly scale: number
}

/** What fits all prices and sizes that were ever seen, with room: 20 digits before the point and 18 after it. */
export const widestUsual: DecimalType = { precision: 38, scale: 18 }

/** The narrowest shape that holds values of this extent. */
export function shapeFor({ digits, scale }: DecimalExtent): DecimalShape {
  if (digits + scale <= 18) return { precision: 18, scale }
  return digits + scale <= 38 ? { precision: 38, scale } : 'text'
}

/** What holds both. */
export function widen(a: DecimalExtent, b: DecimalExtent): DecimalExtent {
  return { digits: Math.max(a.digits, b.digits), scale: Math.max(a.scale, b.scale) }
}
