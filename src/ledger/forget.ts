import { type Kysely, type RawBuilder, sql } from 'kysely'
import { candleLengths } from '../db/series.js'
import type { Database } from '../db/schema.js'

/** Few enough that a statement ends soon and holds nobody up. */
const rowsPerDelete = 10_000

/** Takes back what is said of the time before: what is proven of a stream, what is silent, and what is missing in it. */
export async function forget(db: Kysely<Database>, stream: string, before: Date): Promise<void> {
  const past = upTo(sql`${before}::timestamptz`)
  const pastKept = stream === 'candles' ? upTo(nextOpening(before)) : past
  await deleteGaps(db, stream, before)
  await sql`
    update recorder.known set ranges = ranges - ${pastKept}
    ${stream === 'candles' ? sql`from ${candleLengths}` : sql``}
    where stream = ${stream} and verdict in ('recorded', 'silent', 'no trade') and part < ${before}::timestamptz
      and ranges && ${past} ${stream === 'candles' ? sql`and lengths.interval = known.interval` : sql``}`.execute(db)
  // The first part of what is recorded stays: its row is the lock on the series.
  await sql`
    delete from recorder.known
    where stream = ${stream} and verdict in ('recorded', 'silent', 'no trade') and part > '-infinity' and isempty(ranges)`.execute(
    db,
  )
}

function upTo(time: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`tstzmultirange(tstzrange(null, ${time}))`
}

/**
 * When, of the candles of a row's ranges, the first opens that is kept whole: one that opens before goes, and of half a candle
 * nothing can be claimed. Where they open is known by the end of the range.
 */
function nextOpening(before: Date): RawBuilder<unknown> {
  const at = sql`${before}::timestamptz`
  return sql`coalesce((
    select upper(r) - length * floor(extract(epoch from upper(r) - ${at}) / extract(epoch from length))::float8
    from unnest(ranges) as r where r @> ${at}), ${at})`
}

/** Nobody asks what is missing in time that is not kept. */
async function deleteGaps(db: Kysely<Database>, stream: string, before: Date): Promise<void> {
  for (;;) {
    const { numAffectedRows = 0n } = await sql`
      delete from recorder.known where ctid = any(array(
        select ctid from recorder.known
        where stream = ${stream} and verdict in ('missing', 'lost', 'repaired') and part < ${before}::timestamptz
          and upper(ranges) <= ${before}::timestamptz
        limit ${sql.lit(rowsPerDelete)}
      ))`.execute(db)
    if (numAffectedRows < rowsPerDelete) return
  }
}
