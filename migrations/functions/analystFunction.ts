import { type Kysely, sql } from 'kysely'

/**
 * A function for analysts. The planner inlines a body in SQL. A parameter with the name of a column is qualified by the
 * function's name.
 */
export interface AnalystFunction {
  readonly signature: string
  readonly returns: string
  readonly volatility: 'immutable' | 'stable'
  /** Language of the body. Default: sql. */
  readonly language?: 'plpgsql'
  readonly body: string
  readonly comment: string
}

/** Parameters that most functions begin with. */
export const instrument = 'category market.category, symbol text'
export const range = 'from_time timestamptz, to_time timestamptz'

/** Creates functions with bodies as text, which do not tie a function to a view that may have to be replaced. */
export async function createFunctions(
  db: Kysely<unknown>,
  functions: Readonly<Record<string, AnalystFunction>>,
): Promise<void> {
  for (const [name, { signature, returns, volatility, language = 'sql', body, comment }] of Object.entries(functions)) {
    await sql`create function market.${sql.raw(`${name} ${signature} returns ${returns}`)}
      language ${sql.raw(`${language} ${volatility}`)} parallel safe as ${sql.lit(`${body}\n`)}`.execute(db)
    await sql`comment on function ${sql.raw(`market.${name}`)} is ${sql.lit(comment)}`.execute(db)
  }
}
