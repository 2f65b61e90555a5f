/** A straight line through samples, and how sure its slope is. */
export interface Trend {
  /** Units of y per unit of x. */
  readonly slope: number
  /** Half the width of the slope's 95 % confidence interval. */
  readonly uncertainty: number
}

/** Two-sided 95 % quantile of Student's distribution with 8 degrees of freedom: ten blocks, two parameters. */
const student = 2.306
const blocks = 10

/**
 * Fits a line to the means of ten blocks of consecutive samples: neighbouring samples of a process's memory depend on each
 * other, which would make a slope of single samples look surer than it is.
 */
export function trendOf(samples: readonly { readonly x: number; readonly y: number }[]): Trend {
  if (samples.length < blocks * 3) throw new Error(`a trend needs ${blocks * 3} samples, got ${samples.length}`)
  const means = Array.from({ length: blocks }, (_, block) => {
    const from = Math.floor((block * samples.length) / blocks)
    const part = samples.slice(from, Math.floor(((block + 1) * samples.length) / blocks))
    return { x: mean(part.map(({ x }) => x)), y: mean(part.map(({ y }) => y)) }
  })
  const meanX = mean(means.map(({ x }) => x))
  const meanY = mean(means.map(({ y }) => y))
  const spread = means.reduce((sum, { x }) => sum + (x - meanX) ** 2, 0)
  const slope = means.reduce((sum, { x, y }) => sum + (x - meanX) * (y - meanY), 0) / spread
  const residual = means.reduce((sum, { x, y }) => sum + (y - meanY - slope * (x - meanX)) ** 2, 0)
  return { slope, uncertainty: student * Math.sqrt(residual / (blocks - 2) / spread) }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
