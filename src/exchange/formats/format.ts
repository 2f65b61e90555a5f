import type { Extra, TimeMs } from '../../market/values.js'
import type { Notes } from './fields.js'

/** A row of the wire that is an object, by the names that its fields have there. */
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

/** The request that a row responds to, and when. */
export interface RowContext<Query> {
  readonly query: Query
  /** The service's clock of the response. */
  readonly requestTime: TimeMs
  /** Our clock when its last byte arrived. */
  readonly receivedAt: TimeMs
}

/** How the rows of an operation become rows of the market, in one step. */
export interface Format<Query, Row, Wire = WireObject> {
  readonly shape: Shape<Wire>
  /**
   * Makes the row, and notes what is wrong with it. With a problem the result is not used; fields with a remark are kept in
   * the row's `extra` as they came.
   */
  readonly read: (wire: Wire, context: RowContext<Query>, notes: Notes) => Row
  /** The wire's names of every field that is read, where the row has an `extra` for the others. */
  readonly fields?: ReadonlySet<string>
  /** The time of the market that the row is kept under. */
  readonly timeOf?: (row: Row) => TimeMs
}

/** The `extra` of a row that has no field which the specification does not name: most have none. */
export const noExtra: Extra = Object.freeze({})
