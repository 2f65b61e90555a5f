import { type InstrumentKey, instrumentText } from '../../market/category.js'

/** A number in [0, 1) that is the same for an instrument in every process (FNV-1a of its key). */
export function stablePhase(key: InstrumentKey): number {
  let hash = 0x811c9dc5
  for (const character of instrumentText(key)) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193)
  }
  return (hash >>> 0) / 2 ** 32
}

/**
 * The first moment after `nowMs` that lies at `phase` of a cycle of `periodMs`. Cycles are counted from the epoch, so
 * that a restart keeps every instrument's place in the cycle.
 */
export function nextPlace(nowMs: number, periodMs: number, phase: number): number {
  const offset = phase * periodMs
  return (Math.floor((nowMs - offset) / periodMs) + 1) * periodMs + offset
}
