import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Category } from '../market/category.js'
import { type FieldStream, fieldStreams, type RowOf, streamTraits } from '../market/stream.js'
import type { FieldType } from '../market/values.js'
import { type ColumnKind, type ColumnSpec, type ColumnValue, columnNames, rowsFrom, snakeCase } from './columns.js'
import type { Database } from './schema.js'

/** Number of rows per statement. More could exceed the columnstore's limit on tuples that a statement decompresses. */
export const rowsPerStatement = 1_000

/** Calls `write` for the rows of one statement at a time. Other work of the process runs between statements. */
export async function inStatements<Row>(
  rows: readonly Row[],
  write: (part: readonly Row[]) => Promise<WriteResult>,
): Promise<WriteResult> {
  let inserted = 0
  let updated = 0
  for (let start = 0; start < rows.length; start += rowsPerStatement) {
    const part = start === 0 && rows.length <= rowsPerStatement ? rows : rows.slice(start, start + rowsPerStatement)
    const result = await write(part)
    inserted += result.inserted
    updated += result.updated
  }
  return { inserted, updated }
}

/** A table with one column per field of its rows, named after the field. */
export interface RowTable<Row> {
  readonly name: string
  /** Names of the key's columns. */
  readonly key: readonly string[]
  readonly columns: readonly ColumnSpec[]
  /** Returns rows as a source for `from`, see `rowsFrom`. */
  readonly source: (rows: readonly Row[]) => RawBuilder<unknown>
}

/** @param kinds how each field is written */
export function rowTable<Row extends Readonly<Record<keyof Row, ColumnValue>>>(
  name: string,
  key: readonly string[],
  kinds: Readonly<Record<keyof Row & string, ColumnKind>>,
): RowTable<Row> {
  const fields = Object.keys(kinds) as (keyof Row & string)[]
  const columns = fields.map((field) => ({ name: snakeCase(field), kind: kinds[field] }))
  const valueOf = (row: Row, column: number) => row[fields[column] as keyof Row]
  return { name, key, columns, source: (rows) => rowsFrom(rows, columns, valueOf) }
}

/** A row of a stream's table. */
type StoredRow<Name extends FieldStream> = Omit<RowOf<Name>, 'category'> & { readonly category: Category }

const streamTables = new Map(
  fieldStreams.map((name) => {
    const traits = streamTraits[name]
    const kinds = Object.entries<FieldType>(traits.fields).map(([field, type]) => [
      field,
      type.replace('?', '').replace('amount', 'decimal'),
    ])
    const own = { ...(Object.fromEntries(kinds) as Record<string, ColumnKind>), extra: 'json' } as const
    const instrument = { category: 'category', symbol: 'text' } as const
    const [key, columns] =
      traits.table === 'list'
        ? [
            ['category', 'symbol', ...traits.keyFields.map((field) => snakeCase<string>(field))],
            { ...instrument, ...own },
          ]
        : [
            [...traits.table.seriesColumns, ...traits.table.orderColumns],
            { ...instrument, ts: 'time', receivedAt: 'time', ...own } as const,
          ]
    return [name, rowTable<Record<string, ColumnValue>>(`market.${name}`, key, columns)]
  }),
)

/** Returns the table of a stream. */
export function streamTable<Name extends FieldStream>(name: Name): RowTable<StoredRow<Name>> {
  return streamTables.get(name) as unknown as RowTable<StoredRow<Name>>
}

/** Inserts rows and keeps existing ones. All writers insert in the order of the key, so that two cannot deadlock. */
export async function appendRows<Name extends FieldStream>(
  db: Kysely<Database>,
  stream: Name,
  rows: readonly StoredRow<Name>[],
): Promise<WriteResult> {
  const table = streamTable(stream)
  return inStatements(rows, async (part) => {
    const result = await sql`
      insert into ${sql.table(table.name)} (${columnNames(table.columns)})
      select ${columnNames(table.columns)} from ${table.source(part)} as incoming
      order by ${keyOrder(table.key)}
      on conflict do nothing`.execute(db)
    return { inserted: Number(result.numAffectedRows ?? 0n), updated: 0 }
  })
}

export function keyOrder(key: readonly string[]): RawBuilder<unknown> {
  return sql.raw(key.map((name) => `"${name}"`).join(', '))
}

/** Numbers of rows that a write changed. All others were stored already, or occur twice. */
export interface WriteResult {
  readonly inserted: number
  readonly updated: number
}
