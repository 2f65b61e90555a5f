import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'

/** Calls a handler at every event of a kind while the component is on the page. */
export function useWindowEvent<Name extends keyof WindowEventMap>(
  name: Name,
  handler: (event: WindowEventMap[Name]) => void,
): void {
  useEffect(() => {
    addEventListener(name, handler)
    return () => removeEventListener(name, handler)
  })
}

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

/** Shows the head of a table, with the name and class of each column. */
export function Head({ columns }: { columns: readonly (readonly [name: string, style?: string])[] }) {
  return (
    <thead>
      <tr>
        {columns.map(([name, style]) => (
          <th key={name} scope="col" class={style}>
            {name}
          </th>
        ))}
      </tr>
    </thead>
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
