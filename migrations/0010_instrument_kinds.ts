import { type Kysely, sql } from 'kysely'

/** What each instrument stands for, derived of those that are stored already. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const comment =
    'What it stands for: crypto, tokenised_stock (is_reality; its ticker follows a stock exchange elsewhere and little of it trades here), ' +
    'rwa_perpetual (is_rwa futures), rwa_token (other is_rwa), stock, metal, commodity (by symbol_type where no flag is set) or other. ' +
    'Derived by the recorder: symbol_type alone was seen to be wrong.'
  for (const table of ['market.instruments', 'market.instrument_history']) {
    await sql`alter table ${sql.table(table)} add column kind text check (kind <> '')`.execute(db)
    await sql`
      update ${sql.table(table)} set kind = case
        when is_reality then 'tokenised_stock'
        when is_rwa and category::text like '%FUTURES' then 'rwa_perpetual'
        when lower(symbol_type) in ('metal', 'stock', 'commodity') then lower(symbol_type)
        when is_rwa then 'rwa_token'
        when symbol_type is null or lower(symbol_type) = 'crypto' then 'crypto'
        else 'other'
      end`.execute(db)
    await sql`alter table ${sql.table(table)} alter column kind set not null`.execute(db)
    await sql`comment on column ${sql.ref(`${table}.kind`)} is ${sql.lit(comment)}`.execute(db)
  }
}
