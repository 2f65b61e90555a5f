import { bounds } from '../../market/bounds.js'
import { type RejectedRow, rejectedRow } from '../../market/rows.js'
import type { Extra, MachineMs, ServiceMs } from '../../market/values.js'
import { workedMs } from '../../runtime/clock.js'
import { messageOf } from '../../runtime/text.js'
import { nextTurn } from '../../runtime/turns.js'
import { toleranceMs } from '../serviceClock.js'
import { isRecord, jsonText, numbersAsText, parseText, type ServiceResponse } from '../response.js'
import { expectedText, isStorable, type Notes } from './fields.js'

/** Depth of a row in its response. */
const rowDepth = 2

/** A row of the wire that is an object, by the names of its fields on the wire. */
export type WireObject = Readonly<Record<string, unknown>>
export type WireArray = readonly unknown[]

/** The kind of JSON value that a row must be. */
interface Shape<Wire> {
  readonly what: string
  is(value: unknown): value is Wire
}
export const anObject: Shape<WireObject> = { what: 'an object', is: isRecord }
export const anArray: Shape<WireArray> = { what: 'an array', is: Array.isArray }

/** The request that a row responds to, and the times of the response. */
export interface RowContext<Query> {
  readonly query: Query
  /** The service's clock when it made the response, at most. What is over, and what may be claimed, is judged by it. */
  readonly requestTime: ServiceMs
  /** The response's own time, as it says. Rows without a time of their own have it. */
  readonly ownTime: ServiceMs
  /** Our clock when the last byte of the response arrived. */
  readonly receivedAt: MachineMs
}

/** Converts the rows of an operation into rows of the market, in one step. */
export interface Format<Query, Row, Wire = WireObject> {
  readonly shape: Shape<Wire>
  /**
   * Makes the row, and notes what is wrong with it. If there is a problem, the result is not used. Fields with a remark
   * are kept in the row's `extra` as they came.
   */
  readonly read: (wire: Wire, context: RowContext<Query>, notes: Notes) => Row
  /** Spells a query as parameters. By default its properties are the parameters. */
  readonly parametersOf?: (query: Query) => object
  /** The wire's names of all fields that are read, if the row has an `extra` for the others. */
  readonly fields?: ReadonlySet<string>
  /** Returns the time that the row is stored under. */
  readonly timeOf?: (row: Row) => ServiceMs
}

/** The `extra` of rows without unspecified fields. Most rows have none, so they share one object. */
export const noExtra: Extra = Object.freeze({})

/** The request that the rows respond to. */
interface RowsRequest<Query> extends Omit<RowContext<Query>, 'ownTime'> {
  readonly operation: string
  readonly parameters: Readonly<Record<string, string>>
}

interface ReadRows<Row> {
  readonly rows: readonly Row[]
  /** Rows that could not be understood, and remarks about rows that were kept, up to a bound. */
  readonly rejected: readonly RejectedRow[]
  /** Number of further rows that could not be understood. */
  readonly unkept: number
}

/** No market of the service is older. */
const earliestTime = Date.UTC(2010, 0, 1)
/** Longest uninterrupted work. Longer work would delay requests that are due. */
const sliceMs = 3
/** Number of ordinary rows between two looks at the clock. A look costs as much as reading a few fields. */
const rowsPerLook = 16
/** Number of bytes that are parsed between two looks at the clock. */
const bytesPerLook = 16_384

/** Reads rows one by one, in slices of a few milliseconds. Rows that cannot be understood do not affect the others. */
export async function readRows<Query, Row, Wire>(
  format: Format<Query, Row, Wire>,
  { rows: values, requestTime: ownTime }: Pick<ServiceResponse, 'rows' | 'requestTime'>,
  request: RowsRequest<Query>,
): Promise<ReadRows<Row>> {
  const rows: Row[] = []
  const rejected: RejectedRow[] = []
  const remarked = new Set<string>()
  let unkept = 0
  const reader = new RowReader(format, request, ownTime ?? request.requestTime)
  let parsedBytes = 0
  let sliceStart = workedMs()
  for (let index = 0; index < values.length; index++) {
    const value = values[index]
    const row = reader.read(value)
    const isOrdinary = reader.reason === null
    if (row !== undefined) rows.push(row)
    if (reader.reason !== null) {
      // The row itself is kept, so one remark for each set of fields suffices.
      const isNews = row === undefined || !remarked.has(reader.leftOutFields)
      if (row !== undefined) remarked.add(reader.leftOutFields)
      if (isNews && rejected.length < bounds.rejectedRows)
        rejected.push(rejection(request, reader.reason, value, row !== undefined))
      else if (row === undefined) unkept += 1
    }
    if (Buffer.isBuffer(value)) parsedBytes += value.length
    if ((!isOrdinary || index % rowsPerLook === 0 || parsedBytes > bytesPerLook) && workedMs() - sliceStart > sliceMs) {
      await nextTurn()
      parsedBytes = 0
      sliceStart = workedMs()
    }
  }
  return { rows, rejected, unkept }
}

function rejection(
  request: Pick<RowsRequest<unknown>, 'operation' | 'parameters'>,
  reason: string,
  value: unknown,
  isRowStored: boolean,
): RejectedRow {
  const rejected = rejectedRow(request, reason, Buffer.isBuffer(value) ? value : jsonText(value))
  return isRowStored ? { ...rejected, isRowStored: true } : rejected
}

/** Reads the rows of one response. */
class RowReader<Query, Row, Wire> {
  /** Why the last row was rejected, or which part of it was left out; null if it was taken whole. */
  reason: string | null = null
  /** Names of the fields that were left out of the last row, joined by commas. */
  leftOutFields = ''
  readonly #format: Format<Query, Row, Wire>
  readonly #request: RowContext<Query>
  /** The response's own time and the most by which a believed server may be behind the others, which make rows, too. */
  readonly #latestTime: number
  /** Findings about the row that is being read. It is empty between rows. */
  readonly #notes: Notes = { problems: [], remarks: new Map() }
  /** Fields of an earlier row without unspecified ones. Most rows of a response have the same fields in this order. */
  #known: readonly string[] = []

  constructor(format: Format<Query, Row, Wire>, request: RowsRequest<Query>, ownTime: ServiceMs) {
    this.#format = format
    this.#request = { ...request, ownTime }
    this.#latestTime = ownTime + toleranceMs
  }

  read(value: unknown): Row | undefined {
    const { shape, read, fields, timeOf } = this.#format
    this.reason = null
    if (Buffer.isBuffer(value)) return this.#readText(value)
    if (!shape.is(value)) return this.#reject(expectedText(shape.what, value))
    const notes = this.#notes
    const { problems, remarks } = notes
    remarks.clear()
    const row = read(value, this.#request, notes)
    if (problems.length > 0) return this.#reject(listed(problems.splice(0)))
    if (timeOf !== undefined) {
      const time = timeOf(row)
      if (time < earliestTime || time > this.#latestTime)
        return this.#reject(`a time that cannot be: ${new Date(time).toISOString()}`)
    }
    this.leftOutFields = [...remarks.keys()].join()
    if (remarks.size > 0) this.reason = `${listed([...remarks.values()])}; the row is stored without it`
    if (fields === undefined || (remarks.size === 0 && this.#hasOnly(fields, value as WireObject))) return row
    const isKept = (name: string) => !fields.has(name) || remarks.has(name)
    const { extra, left } = readExtra(value as WireObject, isKept)
    if (left > 0) this.reason = `${left} fields that cannot be kept were left out; the row is stored`
    return { ...row, extra }
  }

  #readText(text: Buffer): Row | undefined {
    if (text.length > bounds.rowBytes) return this.#reject(`a row of ${text.length} bytes`)
    try {
      return this.read(parseText(text, rowDepth))
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error
      return this.#reject(`a row that is not JSON: ${messageOf(error)}`)
    }
  }

  #reject(reason: string): undefined {
    this.reason = reason
    return undefined
  }

  #hasOnly(fields: ReadonlySet<string>, wire: WireObject): boolean {
    const known = this.#known
    let index = 0
    let isSame = true
    for (const name in wire) {
      if (name === known[index++]) continue
      isSame = false
      if (!fields.has(name)) return false
    }
    if (!isSame) this.#known = Object.keys(wire)
    return true
  }
}

function listed([first = '', ...others]: readonly string[]): string {
  return others.length > 0 ? `${first} (and ${others.length} more)` : first
}

/** Returns the fields that are kept as they came, up to a bound, and the number of those left out. */
function readExtra(wire: WireObject, isKept: (name: string) => boolean): { extra: Extra; left: number } {
  const kept: [string, unknown][] = []
  let bytes = 0
  let left = 0
  for (const name in wire) {
    if (!isKept(name)) continue
    const inner = wire[name]
    // A field that is not kept anyway is not converted, because a row may have thousands.
    const size = kept.length < bounds.unknownFields ? name.length + jsonText(inner).length : Infinity
    if (bytes + size > bounds.unknownBytes || !isStorable(name) || !isStorable(inner)) {
      left++
      continue
    }
    bytes += size
    kept.push([name, numbersAsText(inner)])
  }
  return { extra: kept.length === 0 ? noExtra : Object.fromEntries(kept), left }
}
