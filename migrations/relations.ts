import { type Kysely, sql } from 'kysely'

/**
 * Descriptions of tables or views, by name. Lines at the top that begin with `--` say what a row is. Each line below is
 * `column type and constraints -- comment`, with the column's unit and where it comes from. Lines that begin with `--`
 * continue the comment above them. A line without a comment is a constraint of the table.
 */
type Relations = Readonly<Record<string, string>>

interface Line {
  readonly definition: string
  readonly comment: string[]
}

/** Creates tables with their comments. */
export async function createTables(db: Kysely<unknown>, tables: Relations): Promise<void> {
  for (const [table, text] of Object.entries(tables)) {
    const definitions = linesOf(text).columns.map(({ definition }) => definition)
    await sql`create table ${sql.table(table)} (${sql.raw(definitions.join(', '))})`.execute(db)
  }
  await commentOn(db, 'table', tables)
}

/** Puts comments on relations that exist. Of each line, only the name of the column counts, and the comment. */
export async function commentOn(db: Kysely<unknown>, kind: 'table' | 'view', relations: Relations): Promise<void> {
  for (const [relation, text] of Object.entries(relations)) {
    const { about, columns } = linesOf(text)
    await sql`comment on ${sql.raw(kind)} ${sql.table(relation)} is ${sql.lit(about.join(' '))}`.execute(db)
    for (const { definition, comment } of columns) {
      if (comment.length === 0) continue
      const column = sql.ref(`${relation}.${definition.split(' ')[0] ?? ''}`)
      await sql`comment on column ${column} is ${sql.lit(comment.join(' '))}`.execute(db)
    }
  }
}

function linesOf(text: string): { readonly about: readonly string[]; readonly columns: readonly Line[] } {
  const about: string[] = []
  const columns: Line[] = []
  for (const line of text.trim().split(/\s*\n\s*/)) {
    const [definition = '', comment] = line.split(/(?:^| )-- /)
    if (definition !== '') columns.push({ definition, comment: [] })
    if (comment !== undefined) (columns.at(-1)?.comment ?? about).push(comment)
  }
  return { about, columns }
}

/** The two columns that every relation of an instrument begins with. */
export const key = `
    category market.category not null -- Product line of the service: SPOT, MARGIN or one of the futures lines.
    symbol text not null check (symbol <> '')
      -- Instrument name as the service spells it. The same name may exist in several categories.`

export const receivedAt = 'received_at timestamptz not null -- When the recorder received it, by its own clock.'

export const extra = `extra jsonb not null default '{}' check (jsonb_typeof(extra) = 'object')
      -- Fields that the specification does not name, as they were sent; {} when there are none.`

/** Returns a condition that a number is finite. NaN sorts above Infinity, so that the second comparison excludes it, too. */
export function finite(column: string): string {
  return `${column} > '-Infinity' and ${column} < 'Infinity'`
}

/** End of a statement that adds ranges to known ones. The statement must name its table `k`. */
export const adding = `on conflict (stream, category, symbol, type, interval, verdict, part) do update
        set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges`

/** Returns SQL for a sum that is unknown as soon as one of its parts is. */
export function wholeSum(column: string): string {
  return `case when count(${column}) = count(*) then sum(${column}) end`
}

/**
 * Returns the last columns of a view of rollups. They follow from the others, of a relation named `r`. Stored rollups may
 * lack candles that came since. Such a bucket counts as complete only where no more minutes are stored than it has.
 */
export function completeness(length: string, source: 'stored' | 'computed' = 'computed'): string {
  const lacksNone = `
      and r.minutes >= (select count(*) from market.candles c where c.category = r.category and c.symbol = r.symbol
        and c.type = 'market' and c.interval = '1m' and c.is_closed
        and c.open_time >= r.open_time and c.open_time < r.open_time + interval '${length}')`
  return `extract(epoch from interval '${length}')::bigint / 60 as expected_minutes,
    r.minutes = extract(epoch from interval '${length}')::bigint / 60 or exists (
      select from market.coverage v where v.category = r.category and v.symbol = r.symbol and v.stream = 'candles'
        and v.type = 'market' and v.interval = '1m'
        and v.from_time <= r.open_time and v.to_time >= r.open_time + interval '${length}')${
          source === 'stored' ? lacksNone : ''
        } as is_complete`
}
