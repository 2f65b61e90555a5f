import type { TimeMs } from '../../market/values.js'
import { mix, unit } from './hash.js'

/** Periods from seconds to months, and how far each may move the price, as a share of the base price. */
const octaves: readonly (readonly [periodMs: number, amplitude: number])[] = [
  [11_000, 0.0004],
  [97_000, 0.0012],
  [900_000, 0.004],
  [10_800_000, 0.012],
  [111_600_000, 0.03],
  [1_123_200_000, 0.08],
  [12_096_000_000, 0.2],
]

/** The price of an instrument relative to its base price (within 0.67 and 1.33) at any moment. */
export type PricePath = (at: TimeMs) => number

/**
 * Smooth value noise, summed over the octaves: each moment costs the same, however far away it is.
 * The last cell of each octave is remembered, because moments are mostly asked in order.
 */
export function createPricePath(key: number): PricePath {
  const cells = octaves.map(([periodMs, amplitude], octave) => ({
    periodMs,
    amplitude,
    key: mix(key, octave, 0x0c7a),
    index: Number.NaN,
    left: 0,
    right: 0,
  }))
  return (at) => {
    let sum = 1
    for (const cell of cells) {
      const position = at / cell.periodMs
      const index = Math.floor(position)
      if (index !== cell.index) {
        cell.index = index
        cell.left = unit(mix(cell.key, index)) * 2 - 1
        cell.right = unit(mix(cell.key, index + 1)) * 2 - 1
      }
      const x = position - index
      sum += cell.amplitude * (cell.left + (cell.right - cell.left) * x * x * (3 - 2 * x))
    }
    return sum
  }
}
