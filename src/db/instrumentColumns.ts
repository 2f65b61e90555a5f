import { type Instrument, type InstrumentField, instrumentFields, type InstrumentKind } from '../market/instrument.js'
import type { ColumnType } from 'kysely'
import type { Extra } from '../market/values.js'
import { type ColumnSpec, snakeCase, type SnakeCase } from './columns.js'

/** Columns of the specification of an instrument, derived from the one table of its fields. */
export type InstrumentColumns = {
  [Field in InstrumentField as SnakeCase<Field>]: (typeof instrumentFields)[Field] extends 'time'
    ? ColumnType<Instrument[Field], Date | null, Date | null>
    : Instrument[Field]
} & { kind: InstrumentKind; extra: ColumnType<Extra, string, string> }

/** How each field of the specification is written, in the order of the fields. */
export const instrumentColumns: readonly (ColumnSpec & { readonly field: InstrumentField })[] = (
  Object.keys(instrumentFields) as InstrumentField[]
).map((field) => ({ field, name: snakeCase(field), kind: instrumentFields[field] }))
