import { type Kysely, sql } from 'kysely'

const further = ['3D', '1W', '6Hutc', '12Hutc', '1Dutc', '3Dutc', '1Wutc']

/** Intervals that the service has and its specification does not list. Months are not among them: they have no fixed length. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const interval of further) {
    await sql`alter type market.candle_interval add value ${sql.lit(interval)}`.execute(db)
  }
  // A value may not be used in the transaction that adds it, not even to check the body of a function.
  await sql`set local check_function_bodies = off`.execute(db)
  await sql`
    create or replace function market.interval_length(which market.candle_interval) returns interval
    language sql immutable parallel safe as $$
      select case which
        when '1m' then interval '1 minute' when '3m' then interval '3 minutes' when '5m' then interval '5 minutes'
        when '15m' then interval '15 minutes' when '30m' then interval '30 minutes'
        when '1H' then interval '1 hour' when '4H' then interval '4 hours' when '6H' then interval '6 hours'
        when '12H' then interval '12 hours' when '1D' then interval '24 hours'
        when '3D' then interval '72 hours' when '1W' then interval '168 hours'
        when '6Hutc' then interval '6 hours' when '12Hutc' then interval '12 hours' when '1Dutc' then interval '24 hours'
        when '3Dutc' then interval '72 hours' when '1Wutc' then interval '168 hours' end
    $$`.execute(db)
  await sql`set local check_function_bodies = on`.execute(db)
  await sql`comment on type market.candle_interval is ${sql.lit(
    "Length of a candle; the names are the service's and are case-sensitive. Days and longer ones begin at the service's " +
      'midnight, those that end in utc at that of UTC.',
  )}`.execute(db)
}
