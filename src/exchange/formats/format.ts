import type { Extra, TimeMs } from '../../market/values.js'
import type { Notes } from './fields.js'

/** A row of the wire that is an object, by the names of its fields on the wire. */
export type WireObject = Readonly<Record<string, unknown>>
export type WireArray = readonly unknown[]

/** The kind of JSON value that a row must be. */
interface Shape<Wire> {
  readonly what: string
  is(value: unknown): value is Wire
}
export const anObject: Shape<WireObject> = {
  what: 'an object',
  is: (value): value is WireObject => typeof value === 'object' && value !== null && !Array.isArray(value),
}
export const anArray: Shape<WireArray> = { what: 'an array', is: Array.isArray }

/** The request that a row responds to, and the times of the response. */
export interface RowContext<Query> {
  readonly query: Query
  /** The service's clock when it made the response. */
  readonly requestTime: TimeMs
  /** Our clock when the last byte of the response arrived. */
  readonly receivedAt: TimeMs
}

/** Converts the rows of an operation into rows of the market, in one step. */
export interface Format<Query, Row, Wire = WireObject> {
  readonly shape: Shape<Wire>
  /**
   * Makes the row, and notes what is wrong with it. If there is a problem, the result is not used. Fields with a remark
   * are kept in the row's `extra` as they came.
   */
  readonly read: (wire: Wire, context: RowContext<Query>, notes: Notes) => Row
  /** The wire's names of all fields that are read, if the row has an `extra` for the others. */
  readonly fields?: ReadonlySet<string>
  /** Returns the time that the row is stored under. */
  readonly timeOf?: (row: Row) => TimeMs
}

/** The `extra` of rows without unspecified fields. Most rows have none, so they share one object. */
export const noExtra: Extra = Object.freeze({})
