import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { csvLine } from '../../runtime/text.js'

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
  /** What the panel shows, for a file: its name, and its rows with their head; undefined while there is nothing. */
  readonly csv?: { readonly name: string; readonly rows: () => CsvRows | Promise<CsvRows> } | undefined
  readonly children: ComponentChildren
}

type CsvRows = readonly (readonly (string | number | boolean | null)[])[]

/** Shows a part of the page with its heading. */
export function Panel({ id, title, aside, csv, children }: PanelProps) {
  return (
    <section id={id} class="panel" aria-labelledby={`${id}-title`}>
      <div class="panel-head">
        <h2 id={`${id}-title`}>{title}</h2>
        {aside}
        {csv !== undefined && (
          <button class="csv" title="Saves what this panel shows" onClick={() => void saveCsv(csv.name, csv.rows())}>
            CSV
          </button>
        )}
      </div>
      {children}
    </section>
  )
}

async function saveCsv(name: string, given: CsvRows | Promise<CsvRows>): Promise<void> {
  const cell = (value: CsvRows[number][number]) => (value === null || value === '' ? null : String(value))
  const rows = await given
  const text = rows.map((row) => `${csvLine(row.map(cell))}\r\n`).join('')
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type: 'text/csv' }))
  link.download = `${name}.csv`
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

/** Shows a command with a button that copies it. Browsers let only pages of this machine or over HTTPS copy. */
export function Command({ text }: { text: string }) {
  const [isCopied, setCopied] = useState(false)
  const copy = () => void navigator.clipboard.writeText(text).then(() => setCopied(true))
  return (
    <span class="command">
      <code>{text}</code> {isSecureContext && <button onClick={copy}>{isCopied ? 'Copied' : 'Copy'}</button>}
    </span>
  )
}

interface ChoiceProps<Value extends string> {
  readonly name: string
  readonly values: readonly Value[]
  /** The chosen value; null for all. */
  readonly chosen: string | null
  readonly choose: (value: Value | null) => void
}

/** Shows a choice between many values, or all of them. */
export function Choice<Value extends string>({ name, values, chosen, choose }: ChoiceProps<Value>) {
  const choice = (text: string) => values.find((value) => value === text) ?? null
  return (
    <select aria-label={name} value={chosen ?? ''} onChange={(event) => choose(choice(event.currentTarget.value))}>
      <option value="">{name}</option>
      {[...new Set(values)].toSorted().map((value) => (
        <option key={value} value={value}>
          {value.replaceAll('_', ' ')}
        </option>
      ))}
    </select>
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
