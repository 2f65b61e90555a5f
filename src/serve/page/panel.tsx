import type { ComponentChildren } from 'preact'

interface PanelProps {
  readonly id: string
  readonly title: string
  /** A figure or control beside the title. */
  readonly aside?: ComponentChildren
  readonly children: ComponentChildren
}

/** Shows a part of the page with its heading. */
export function Panel({ id, title, aside, children }: PanelProps) {
  return (
    <section id={id} class="panel" aria-labelledby={`${id}-title`}>
      <div class="panel-head">
        <h2 id={`${id}-title`}>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  )
}

interface RadiosProps<Value extends string | number> {
  readonly name: string
  readonly values: readonly Value[]
  readonly chosen: Value
  readonly choose: (value: Value) => void
  readonly shown?: (value: Value) => string
}

/** Shows a choice between a few values, side by side. */
export function Radios<Value extends string | number>(props: RadiosProps<Value>) {
  const { name, values, chosen, choose, shown = String } = props
  return (
    <fieldset class="radios">
      <legend class="hidden">{name}</legend>
      {values.map((value) => (
        <label key={value}>
          <input type="radio" name={name} value={value} checked={chosen === value} onChange={() => choose(value)} />
          <span>{shown(value)}</span>
        </label>
      ))}
    </fieldset>
  )
}

/** Explains marks. `keys` gives a word for each class. */
export function Legend({ keys, children }: { keys: Readonly<Record<string, string>>; children?: ComponentChildren }) {
  return (
    <p class="legend">
      {Object.entries(keys).map(([mark, meaning]) => (
        <span key={mark}>
          <span class={`key ${mark}`} aria-hidden="true" /> {meaning}
        </span>
      ))}
      {children}
    </p>
  )
}

const width = 120
const height = 20
const slots = 60

/** Draws a small bar chart without axes, with the newest value at the right end. */
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

/** Drops the highest value. The rate of the first seconds after a start would flatten all other bars. */
function sortedWithoutOutlier(values: readonly number[]): number[] {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted.length > 3 ? sorted.slice(0, -1) : sorted
}
