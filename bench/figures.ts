/** One figure beside its target. */
export interface Check {
  readonly what: string
  readonly measured: string
  readonly target: string
  readonly isMet: boolean
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}
