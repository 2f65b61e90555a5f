import { mix } from './hash.js'

/** `units` of 10^-decimals as decimal text. All decimals are written, so trailing zeros stay. */
export function fixed(units: number | bigint, decimals: number): string {
  const negative = units < 0
  const digits = String(negative ? -units : units)
  const sign = negative ? '-' : ''
  if (decimals === 0) return sign + digits
  const padded = digits.length > decimals ? digits : digits.padStart(decimals + 1, '0')
  return `${sign}${padded.slice(0, -decimals)}.${padded.slice(-decimals)}`
}

/** `count` digits drawn from `key`, for numbers that carry more precision than a double holds. */
export function drawnDigits(key: number, count: number): string {
  let digits = ''
  for (let i = 0; digits.length < count; i++)
    digits += String(mix(key, i, 0xd161))
      .padStart(10, '0')
      .slice(1)
  return digits.slice(0, count)
}

/** Text with `decimals` fractional digits: those of `units`, and drawn ones for the rest. */
export function fixedWithTail(units: number, decimals: number, tail: number, key: number): string {
  const text = fixed(units, decimals)
  if (tail === 0) return text
  return `${decimals === 0 ? `${text}.` : text}${drawnDigits(key, tail)}`
}
