import { setImmediate as nextTurn } from 'node:timers/promises'
import type { z } from 'zod'
import type { RejectedRow } from '../market/rejectedRow.js'
import type { Extra } from '../market/values.js'
import { isStorable } from './fields.js'
import { losslessText, numbersAsText } from './lossless.js'

/** How one row of an operation's answer is read. */
export interface RowSchema<Row> {
  readonly schema: z.ZodType<Row>
  /** The wire's names of every field that the schema reads; the others go to `extra`. Null for rows that are arrays. */
  readonly fields: ReadonlySet<string> | null
  /** Names positions beyond the specified ones in rows or parts of rows that are arrays. */
  readonly unknownPositions?: (value: unknown) => readonly string[]
  /** What the row must repeat of the request. */
  readonly repeats?: readonly ('category' | 'symbol')[]
}

export interface ReadRows<Row> {
  readonly rows: readonly Row[]
  readonly rejected: readonly RejectedRow[]
  readonly unknownFields: readonly string[]
}

/** Longer uninterrupted work would delay requests that are due. */
const sliceMs = 3

const noExtra: Extra = Object.freeze({})

/** Validates rows one by one, in slices of a few milliseconds; what cannot be understood is rejected, the rest is kept. */
export async function readRows<Row>(
  rowSchema: RowSchema<Row>,
  values: readonly unknown[],
  operation: string,
  parameters: Readonly<Record<string, string>>,
): Promise<ReadRows<Row>> {
  const rows: Row[] = []
  const rejected: RejectedRow[] = []
  const unknownFields = new Set<string>()
  let sliceStart = performance.now()
  for (let i = 0; i < values.length; i++) {
    const result = readRow(rowSchema, values[i], parameters, unknownFields)
    if ('row' in result) rows.push(result.row)
    else rejected.push({ operation, parameters, reason: result.reason, raw: losslessText(values[i]) })
    if (i % 16 === 15 && performance.now() - sliceStart > sliceMs) {
      await nextTurn()
      sliceStart = performance.now()
    }
  }
  return { rows, rejected, unknownFields: [...unknownFields] }
}

function readRow<Row>(
  { schema, fields, unknownPositions, repeats }: RowSchema<Row>,
  value: unknown,
  parameters: Readonly<Record<string, string>>,
  unknownFields: Set<string>,
): { row: Row } | { reason: string } {
  const parsed = schema.safeParse(value)
  if (!parsed.success) return { reason: reasonOf(parsed.error) }
  const row = parsed.data
  for (const name of repeats ?? []) {
    const got = (row as Record<string, unknown>)[name]
    const asked = parameters[name]
    if (asked !== undefined && typeof got === 'string' && got !== asked)
      return { reason: `${name}: ${got}, but ${asked} was asked for` }
  }
  for (const position of unknownPositions?.(value) ?? []) unknownFields.add(position)
  if (fields === null) return { row }
  let extra = noExtra
  for (const name in value as object) {
    if (fields.has(name)) continue
    const inner = (value as Record<string, unknown>)[name]
    if (!isStorable(name) || !isStorable(inner)) return { reason: 'an unknown field holds text that cannot be stored' }
    unknownFields.add(name)
    extra = { ...extra, [name]: numbersAsText(inner) }
  }
  // The schema has just made this object: nobody else holds it yet.
  return { row: Object.assign(row as object, { extra }) as Row }
}

function reasonOf(error: z.ZodError): string {
  const [first, ...others] = error.issues
  if (first === undefined) return 'not understood'
  const path = first.path.join('.')
  const more = others.length > 0 ? ` (and ${others.length} more)` : ''
  return `${path === '' ? '' : `${path}: `}${first.message}${more}`
}
