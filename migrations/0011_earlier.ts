import { type Kysely, sql } from 'kysely'

/** Error for a database whose tables are not those of the first release, and which no migration changes into them. */
export function tooEarly(): Error {
  return new Error(
    'this database is from before the first release and cannot be upgraded; bring its data along with the program that made it ' +
      '(archive, or export), and restore it into a new database (archive restore)',
  )
}

/** Refuses a database whose first migrations have the same names, and were applied before claims had evidence. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const { rows } = await sql`select from pg_attribute
    where attrelid = 'recorder.ledger'::regclass and attname = 'judged_at' and not attisdropped`.execute(db)
  if (rows.length > 0) throw tooEarly()
}
