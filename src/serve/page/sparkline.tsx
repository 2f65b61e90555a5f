const width = 120
const height = 20
const slots = 60

/** A small chart without axes: bars from the left, the newest at the right end. */
export function Sparkline({ values, label }: { values: readonly number[]; label: string }) {
  const shown = values.slice(-slots)
  const highest = Math.max(...sortedWithoutOutlier(shown), 0.001)
  const step = width / slots
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      {shown.map((value, index) => {
        const tall = value === 0 ? 0.5 : Math.max(1, Math.min(1, value / highest) * height)
        const x = (slots - shown.length + index) * step
        return (
          <rect
            key={index}
            x={x}
            y={height - tall}
            width={step - 0.4}
            height={tall}
            class={value === 0 ? 'zero' : ''}
          />
        )
      })}
    </svg>
  )
}

/** The first seconds bring a thousand times what follows: that one bar would flatten all the others. */
function sortedWithoutOutlier(values: readonly number[]): number[] {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted.length > 3 ? sorted.slice(0, -1) : sorted
}
