/**
 * How the decimals of a column are written: as whole numbers of their last digit, with so many digits after the point. Of 38
 * digits, however few there are: DuckDB multiplies two decimals of up to 18 digits in 64 bits, which overflows. `text` where 38
 * are too few.
 */
export type DecimalShape = DecimalType | 'text'

export interface DecimalType {
  readonly precision: 38
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

/** The shape that holds values of this extent, with as few digits after the point as they have: the others are for products. */
export function shapeFor({ digits, scale }: DecimalExtent): DecimalShape {
  return digits + scale <= 38 ? { precision: 38, scale } : 'text'
}

/** What holds both. */
export function widen(a: DecimalExtent, b: DecimalExtent): DecimalExtent {
  return { digits: Math.max(a.digits, b.digits), scale: Math.max(a.scale, b.scale) }
}
