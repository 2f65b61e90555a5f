/**
 * Returns a hash of three integers, as an unsigned 32-bit integer (the mixing steps of MurmurHash3). Everything in the
 * simulated market is drawn from it, so that any moment can be computed without the moments before.
 */
export function mix(a: number, b: number, c = 0): number {
  let h = step(step(a | 0, b), c)
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

function step(hash: number, word: number): number {
  let k = Math.imul(word, 0xcc9e2d51)
  k = Math.imul((k << 15) | (k >>> 17), 0x1b873593)
  const h = hash ^ k
  return (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0
}

/** Returns a hash as a fraction in [0, 1). */
export function unit(hash: number): number {
  return hash / 4_294_967_296
}

/** Returns the hash of an integer that may need more than 32 bits (up to 2^53). */
export function mixWide(key: number, index: number): number {
  return mix(key, (index % 4_294_967_296) | 0, Math.floor(index / 4_294_967_296))
}

/** Returns the hash of a text, for keys that are names. */
export function mixText(key: number, text: string): number {
  let h = key | 0
  for (let i = 0; i < text.length; i++) h = step(h, text.charCodeAt(i))
  return mix(h, text.length)
}

/** Creates a repeatable stream of fractions in [0, 1), for events in order of arrival, such as latency and faults. */
export function createRandom(seed: number): () => number {
  let drawn = 0
  return () => unit(mix(seed, drawn++, 0x7a4d))
}

/** Returns `units` of 10^-decimals as decimal text. All decimals are written, so trailing zeros stay. */
export function fixed(units: number | bigint, decimals: number): string {
  const negative = units < 0
  const digits = String(negative ? -units : units)
  const sign = negative ? '-' : ''
  if (decimals === 0) return sign + digits
  const padded = digits.length > decimals ? digits : digits.padStart(decimals + 1, '0')
  return `${sign}${padded.slice(0, -decimals)}.${padded.slice(-decimals)}`
}

/** Returns `count` digits drawn from `key`, for numbers with more precision than a double holds. */
export function drawnDigits(key: number, count: number): string {
  let digits = ''
  for (let i = 0; digits.length < count; i++)
    digits += String(mix(key, i, 0xd161))
      .padStart(10, '0')
      .slice(1)
  return digits.slice(0, count)
}

/** Returns a decimal text: `decimals` fractional digits from `units`, then `tail` drawn digits. */
export function fixedWithTail(units: number, decimals: number, tail: number, key: number): string {
  const text = fixed(units, decimals)
  if (tail === 0) return text
  return `${decimals === 0 ? `${text}.` : text}${drawnDigits(key, tail)}`
}
