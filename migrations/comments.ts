import { type Kysely, sql } from 'kysely'

/** A relation's comment and those of its columns: what a row is, each column's unit and where it comes from. */
export interface RelationComments {
  readonly kind: 'table' | 'view'
  readonly comment: string
  readonly columns: Readonly<Record<string, string>>
}

/** Puts comments on relations, named `schema.relation`. Fails on a column that does not exist. */
export async function commentOn(
  db: Kysely<unknown>,
  relations: Readonly<Record<string, RelationComments>>,
): Promise<void> {
  const statements = Object.entries(relations).flatMap(([relation, { kind, comment, columns }]) => [
    sql`comment on ${sql.raw(kind)} ${sql.table(relation)} is ${sql.lit(comment)}`,
    ...Object.entries(columns).map(
      ([column, text]) => sql`comment on column ${sql.ref(`${relation}.${column}`)} is ${sql.lit(text)}`,
    ),
  ])
  for (const statement of statements) await statement.execute(db)
}

/** The two columns that every relation begins with. */
export const keyComments = {
  category: 'Product line of the service: SPOT, MARGIN or one of the futures lines.',
  symbol: 'Instrument name as the service spells it. The same name may exist in several categories.',
} as const

export const receivedAtComment = 'When the recorder received it, by its own clock.'

export const extraComment = 'Fields that the specification does not name, as they were sent; {} when there are none.'
