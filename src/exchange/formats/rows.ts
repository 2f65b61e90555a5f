import { setImmediate as nextTurn } from 'node:timers/promises'
import type { RejectedRow } from '../../market/rejectedRow.js'
import type { Extra, TimeMs } from '../../market/values.js'
import { maxRejectedRows, maxRowBytes, maxUnknownBytes, maxUnknownFields, maxUnknownNames } from '../response/bounds.js'
import { isStorable } from './fields.js'
import { UnparsedRow } from '../response/longResponse.js'
import { losslessText, numbersAsText } from '../response/lossless.js'
import { rejectedRow } from '../../market/rejectedRow.js'
import { noExtra, Refusal, type RowReader } from './rowReader.js'

/** How one row of an operation's response is read. */
export interface RowSchema<Row> {
  readonly read: RowReader<Row>
  /** The wire's names of every field that the schema reads; the others go to `extra`. Null for rows that are arrays. */
  readonly fields: ReadonlySet<string> | null
  /** Names positions beyond the specified ones in rows or parts of rows that are arrays. */
  readonly unknownPositions?: (value: unknown) => readonly string[]
  /** What the row must repeat of the request. */
  readonly repeats?: readonly ('category' | 'symbol')[]
  /** The time that the row is kept under; null where it has none. */
  readonly timeOf?: (row: Row) => TimeMs | null
}

/** Times outside of it are no times of the market. */
export interface PossibleTimes {
  readonly earliest: TimeMs
  readonly latest: TimeMs
}

export interface ReadRows<Row> {
  readonly rows: readonly Row[]
  /** What could not be understood, up to a bound. */
  readonly rejected: readonly RejectedRow[]
  /** How many more rows could not be understood. */
  readonly rejectedUnkept: number
  /** Names of fields that the specification does not have, each once, up to a bound. */
  readonly unknownFields: readonly string[]
}

/** Longer uninterrupted work would delay requests that are due. */
const sliceMs = 3

/** Validates rows one by one, in slices of a few milliseconds; what cannot be understood is rejected, the rest is kept. */
export async function readRows<Row>(
  rowSchema: RowSchema<Row>,
  values: readonly unknown[],
  operation: string,
  parameters: Readonly<Record<string, string>>,
  times?: PossibleTimes,
): Promise<ReadRows<Row>> {
  const rows: Row[] = []
  const rejected: RejectedRow[] = []
  let rejectedUnkept = 0
  const unknownFields = new Set<string>()
  const reading = { parameters, unknownFields, times }
  let sliceStart = performance.now()
  for (const value of values) {
    const { row, reason } = readRow(rowSchema, value, reading)
    if (row !== undefined) rows.push(row)
    if (reason !== undefined) {
      const hasRoom = rejected.length < maxRejectedRows
      if (hasRoom) rejected.push(rejection({ operation, parameters }, reason, value, row !== undefined))
      else if (row === undefined) rejectedUnkept += 1
    }
    if (performance.now() - sliceStart > sliceMs) {
      await nextTurn()
      sliceStart = performance.now()
    }
  }
  return { rows, rejected, rejectedUnkept, unknownFields: [...unknownFields] }
}

function rejection(
  request: { readonly operation: string; readonly parameters: Readonly<Record<string, string>> },
  reason: string,
  value: unknown,
  isRowStored: boolean,
): RejectedRow {
  const text = value instanceof UnparsedRow ? value.bytes : losslessText(value)
  const rejected = rejectedRow(request, reason, text)
  return isRowStored ? { ...rejected, isRowStored: true } : rejected
}

/** The row, or why there is none; both where a part of it is left out. */
interface ReadRow<Row> {
  readonly row?: Row
  readonly reason?: string
}

interface Reading {
  readonly parameters: Readonly<Record<string, string>>
  readonly unknownFields: Set<string>
  readonly times: PossibleTimes | undefined
}

function readRow<Row>(
  { read, fields, unknownPositions, repeats, timeOf }: RowSchema<Row>,
  value: unknown,
  { parameters, unknownFields, times }: Reading,
): ReadRow<Row> {
  if (value instanceof UnparsedRow)
    return { reason: `a row of ${value.bytes.length} bytes; at most ${maxRowBytes} are read` }
  const row = read(value)
  if (row instanceof Refusal) return { reason: row.reason }
  for (const name of repeats ?? []) {
    const got = (row as Record<string, unknown>)[name]
    const asked = parameters[name]
    if (asked !== undefined && typeof got === 'string' && got !== asked)
      return { reason: `${name}: ${got}, but ${asked} was asked for` }
  }
  const time = timeOf?.(row) ?? null
  if (time !== null && times !== undefined && (time < times.earliest || time > times.latest))
    return { reason: `a time that cannot be: ${new Date(time).toISOString()}` }
  for (const position of unknownPositions?.(value) ?? []) addName(unknownFields, position)
  if (fields === null) return { row }
  const unknown = readUnknown(value as Record<string, unknown>, fields, unknownFields)
  if (unknown === null) return { reason: 'an unknown field holds text that cannot be stored' }
  // Most rows have none, and come with an empty one.
  if (unknown === nothingUnknown) return { row }
  // The reader has just made this object: nobody else holds it yet.
  const whole = Object.assign(row as object, { extra: unknown.extra }) as Row
  const { left } = unknown
  if (left === 0) return { row: whole }
  return { row: whole, reason: `${left} unknown fields beyond what is kept of them were left out; the row is stored` }
}

interface Unknown {
  readonly extra: Extra
  readonly left: number
}

const nothingUnknown: Unknown = { extra: noExtra, left: 0 }

/** The fields that the specification does not name, up to a bound, and how many are beyond it. Null if one cannot be stored. */
function readUnknown(
  value: Readonly<Record<string, unknown>>,
  fields: ReadonlySet<string>,
  names: Set<string>,
): Unknown | null {
  let isKnown = true
  for (const name in value) if (!fields.has(name)) isKnown = false
  if (isKnown) return nothingUnknown
  const kept: [string, unknown][] = []
  let bytes = 0
  let left = 0
  for (const name in value) {
    if (fields.has(name)) continue
    const inner = value[name]
    if (kept.length >= maxUnknownFields) {
      left++
      continue
    }
    const size = name.length + losslessText(inner).length
    if (bytes + size > maxUnknownBytes) {
      left++
      continue
    }
    if (!isStorable(name) || !isStorable(inner)) return null
    addName(names, name)
    bytes += size
    kept.push([name, numbersAsText(inner)])
  }
  return { extra: Object.fromEntries(kept), left }
}

function addName(names: Set<string>, name: string): void {
  if (names.size < maxUnknownNames) names.add(name)
}
