export interface Backoff {
  /** After the first failure. */
  readonly minMs: number
  readonly maxMs: number
  /** Ratio of each wait to the one before. Default 2. */
  readonly factor?: number
}

/** How long to wait after so many failures in a row, from 1. */
export function backoffMs(failures: number, { minMs, maxMs, factor = 2 }: Backoff): number {
  return Math.min(maxMs, minMs * factor ** (failures - 1))
}
