import type { ColumnType, Generated, GeneratedAlways } from 'kysely'
import type { Candle, CandleType, Interval } from '../market/candle.js'
import type { Category } from '../market/category.js'
import type { Instrument, InstrumentField, instrumentFields, InstrumentKind } from '../market/instrument.js'
import type { FieldsOf, FieldStream, RowOf, VersionStream } from '../market/stream.js'
import type { DatabaseMs, Decimal, Extra, MachineMs, ServiceMs } from '../market/values.js'
import type { SnakeCase } from './columns.js'
import type { Series } from './series.js'

/** An instant. It is read as epoch milliseconds and written as a Date. */
type Instant<Time = ServiceMs> = ColumnType<Time, Date, Date>
type NullableInstant<Time = ServiceMs> = ColumnType<Time | null, Date | null | undefined, Date | null>
/** JSON. It is read as an object and written as its text. */
type Json = ColumnType<Record<string, unknown>, string, string>

interface InstrumentKeyColumns {
  readonly category: Category
  readonly symbol: string
}

/** Columns of an instrument's specification. */
type InstrumentColumns = {
  [Field in InstrumentField as SnakeCase<Field>]: (typeof instrumentFields)[Field] extends 'time'
    ? NullableInstant
    : Instrument[Field]
} & { kind: InstrumentKind; extra: Json }

/** Every relation that the recorder writes, and those that its page reads. The columns are named as in SQL. */
export interface Database extends FieldTables {
  'market.instruments': InstrumentKeyColumns &
    InstrumentColumns & { first_seen_at: Instant; updated_at: Instant; disappeared_at: NullableInstant }
  'market.instrument_history': InstrumentKeyColumns &
    InstrumentColumns & { valid_from: Instant; valid_to: NullableInstant }
  'market.rpi_symbols': InstrumentKeyColumns & { valid_from: Instant; valid_to: NullableInstant }
  'market.candles': ColumnsOf<Candle>
  'recorder.migration': { name: string; timestamp: string }
  'recorder.ledger': LedgerTable
  'recorder.want': WantTable
  'recorder.slice': SliceTable
  'recorder.candle_revision': CandleRevisionTable
  'recorder.restatement': RestatementTable
  'recorder.rejected_row': RejectedRowTable
  'recorder_page.coverage': Series & { ranges: string }
  'recorder_page.gap': GapView
  'recorder_page.database': { id: string; places: string[] }
  'recorder.lock': LockTable
  'recorder.lease': LeaseTable
  'recorder.archived_day': ArchivedDayTable
  'recorder.changed_day': ChangedDayTable
  'recorder.service': {
    is_only: Generated<boolean>
    base_url: string | null
    noted_at: Generated<DatabaseMs>
    id: Generated<string>
    places: Generated<string[]>
    former: Generated<string[]>
  }
  'recorder.final_rollups': { is_only: Generated<boolean>; before: ServiceMs }
  'iceberg.iceberg_tables': IcebergTablesTable
}

/** A lock that a session holds. For locks that a transaction holds, only the name is stored. */
interface LockTable {
  name: string
  pid: number | null
  login: number | null
  session: string | null
  holder: string | null
  taken_at: NullableInstant<DatabaseMs>
}

interface LeaseTable {
  egress: string
  owner: string | null
  epoch: number
  until: Instant<DatabaseMs>
  waited_until: NullableInstant<DatabaseMs>
  service_time: NullableInstant
  place: string
  fleet: string | null
  weight: number | null
  spool: string | null
}

/** The columns of a table with one column for each field of its rows, named after the field. Numbers are instants. */
type ColumnsOf<Row> = { [Field in keyof Row & string as SnakeCase<Field>]: ColumnOf<Row[Field]> }
type ColumnOf<Value> = [Value] extends [number]
  ? Instant<Value>
  : [Value] extends [number | null]
    ? NullableInstant<NonNullable<Value>>
    : [Value] extends [readonly Decimal[]]
      ? Decimal[]
      : [Value] extends [Extra]
        ? Json
        : Value

/** Numbers of declared fields that are no instants. */
type IntegerColumns<Name extends FieldStream> = {
  [
    Field in keyof FieldsOf<Name> & string as FieldsOf<Name>[Field] extends 'integer' | 'integer?'
      ? SnakeCase<Field>
      : never
  ]: RowOf<Name>[Field & keyof RowOf<Name>]
}

/** Tables of streams with declared fields, and columns that the database adds to some of them. */
type FieldTables = {
  [Name in FieldStream as `market.${Name}`]: Omit<
    ColumnsOf<Name extends VersionStream ? Omit<RowOf<Name>, 'ts' | 'receivedAt'> : RowOf<Name>>,
    keyof IntegerColumns<Name>
  > &
    IntegerColumns<Name> &
    (Name extends keyof AddedColumns ? AddedColumns[Name] : unknown) &
    (Name extends VersionStream ? Period : unknown)
}
/** When a version was first seen, and when a change or the end of it was first seen. */
interface Period {
  valid_from: Instant
  valid_to: NullableInstant
}
interface AddedColumns {
  order_books: BookTop
  rpi_order_books: BookTop
  fills: { category: Category; source: Generated<FillSource> }
}

/** Where fills came from: the responses of live recording, or the service's history. */
export type FillSource = 'live' | 'history'

/** Columns of an order book that the database computes. */
interface BookTop {
  best_bid: GeneratedAlways<Decimal | null>
  best_ask: GeneratedAlways<Decimal | null>
  mid: GeneratedAlways<Decimal | null>
  spread: GeneratedAlways<Decimal | null>
}

/** The values that the table's check allows. */
type Verdict =
  | 'recorded'
  | 'final'
  | 'silent'
  | 'no trade'
  | 'before the beginning'
  | 'unanswered'
  | 'missing'
  | 'lost'
  | 'repaired'
  | 'unsettled'
  | 'reviewed'
  | 'contradicted'
  | 'disputed'

/** Ranges have the form of text, and `part` is an instant that may be infinite. */
interface LedgerTable extends Series {
  id: GeneratedAlways<number>
  verdict: Verdict
  part: Generated<ServiceMs>
  ranges: string
  reason: string | null
  noted_at: Generated<ServiceMs>
  settled_at: NullableInstant
  asked_since: NullableInstant
  rows_before: Generated<number>
  times: Generated<number>
  filled_from: FillSource | null
  gap_until: GeneratedAlways<ServiceMs | null>
}

interface GapView extends Series {
  range: string
  reason: string
  state: GapState
  detected_at: ServiceMs
  filled_from: FillSource | null
}

/** open: the service may still have the rows. repaired: they are stored now. lost: the service no longer has them. */
export type GapState = 'open' | 'repaired' | 'lost'

type Values<When extends 'old' | 'new'> = {
  [Name in 'open' | 'high' | 'low' | 'close' as `${When}_${Name}`]: Decimal
} & { [Name in 'base_volume' | 'quote_turnover' as `${When}_${Name}`]: Decimal | null }

/** Why ranges are wanted. A `review` reads known ranges again, with the budget that the other kinds leave. */
export type WantKind = 'repair' | 'backfill' | 'review'

/** `ranges` and `done` are multiranges in the form of text. */
interface WantTable extends Series {
  id: GeneratedAlways<number>
  kind: WantKind
  ranges: string
  done: Generated<string>
  refused: Generated<string>
  floor: Instant
  again: Generated<boolean>
  is_urgent: Generated<boolean>
  has_open_beginning: Generated<boolean>
  next_to: NullableInstant
  requested_at: Generated<DatabaseMs>
  retry_at: Generated<DatabaseMs>
  ended_at: NullableInstant<DatabaseMs>
  problem: string | null
  failure: string | null
  requests: Generated<number>
  received: Generated<number>
  inserted: Generated<number>
  updated: Generated<number>
}

/** A part of a want. `leased_by` names the worker that fetches it, until `leased_until`. */
interface SliceTable {
  id: GeneratedAlways<number>
  want_id: number
  ranges: string
  leased_by: string
  leased_until: Instant<DatabaseMs>
  taken_at: Generated<DatabaseMs>
}

interface CandleRevisionTable extends InstrumentKeyColumns, Values<'old'>, Values<'new'> {
  id: GeneratedAlways<number>
  type: CandleType
  interval: Interval
  open_time: Instant
  revised_at: Instant<DatabaseMs>
  is_restatement: Generated<boolean>
}

interface RestatementTable extends InstrumentKeyColumns {
  id: GeneratedAlways<number>
  type: CandleType
  interval: Interval
  from_time: Instant
  to_time: Instant
  numerator: Decimal
  denominator: Decimal
  candles: number
  detected_at: Generated<DatabaseMs>
}

interface RejectedRowTable {
  digest: string
  operation: string
  parameters: Json
  reason: string
  raw: string
  raw_sha256: string
  raw_bytes: number
  first_seen_at: Instant<MachineMs>
  last_seen_at: Instant<MachineMs>
  times_seen: Generated<number>
}

interface IcebergTablesTable {
  catalog_name: string
  table_namespace: string
  table_name: string
  metadata_location: string | null
  previous_metadata_location: string | null
  iceberg_type: string | null
}

interface ArchivedDayTable {
  table_name: string
  /** A day as text, such as `2026-03-01`. The driver would convert a date to a local midnight. */
  day: string
  files: ColumnType<object, string | undefined, string>
  due_at: NullableInstant<DatabaseMs>
  archived_at: NullableInstant<DatabaseMs>
  removed_at: NullableInstant<DatabaseMs>
}
interface ChangedDayTable {
  id: GeneratedAlways<number>
  table_name: string
  day: string
}
