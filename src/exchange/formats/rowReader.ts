import type { Extra } from '../../market/values.js'
import { type Field, refusalText, refused } from './fields.js'

/** The `extra` of a row that has no field which the specification does not name: most have none. */
export const noExtra: Extra = Object.freeze({})

/** Why a row cannot be understood: the first reason, and how many more there are. */
export class Refusal {
  readonly reason: string

  constructor(reasons: readonly string[]) {
    const [first = 'not understood', ...others] = reasons
    this.reason = others.length > 0 ? `${first} (and ${others.length} more)` : first
  }
}

/** Turns a row of the wire into a payload, or says why that cannot be done. It does not throw. */
export type RowReader<Row> = (value: unknown) => Row | Refusal

type Fields<Row> = { readonly [Name in keyof Row]: Field<Row[Name]> }

/**
 * Reads an object field by field, under the names that they have on the wire. What else it holds is left out.
 *
 * @param finish turns the fields into the payload; it may keep what it is given
 */
export function objectReader<Row extends object, Payload>(
  fields: Fields<Row>,
  finish: (row: Row) => Payload,
): RowReader<Payload> {
  const names = Object.keys(fields) as (keyof Row & string)[]
  const readers = names.map((name) => fields[name])
  return (value) => {
    if (!isObject(value)) return new Refusal([refusalText('an object', value)])
    const row: Partial<Record<keyof Row, unknown>> = {}
    let isWhole = true
    for (let index = 0; index < names.length; index++) {
      const name = names[index] as keyof Row & string
      const result = (readers[index] as Field<unknown>).read(value[name])
      if (result === refused) isWhole = false
      row[name] = result
    }
    return isWhole ? finish(row as Row) : new Refusal(reasonsOf(value, names, readers))
  }
}

/** Why a row's values were refused: looked for only when some were. */
export function reasonsOf(
  values: Readonly<Record<string, unknown>>,
  names: readonly string[],
  readers: readonly Field<unknown>[],
): string[] {
  return names.flatMap((name, index) => {
    const field = readers[index]
    const value = values[name]
    return field === undefined || field.read(value) !== refused ? [] : [`${name}: ${refusalText(field.what, value)}`]
  })
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
