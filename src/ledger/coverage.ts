import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import type { Database } from '../db/schema.js'
import { sameSeries, type Series, seriesColumns } from '../db/series.js'
import { addingRanges, is, multirangeText, rangesAsJson, toRanges } from './verdicts.js'

/** Adds proven ranges. Call it in the transaction that writes their rows, so that a claim is never without them. */
export async function addCoverage(db: Kysely<Database>, series: Series, ranges: readonly TimeRange[]): Promise<void> {
  await addCoverages(db, [{ series, ranges }])
}

/** Adds proven ranges of several series, each at most once. */
export async function addCoverages(db: Kysely<Database>, claims: readonly Claim[]): Promise<void> {
  const proven = provenOf(claims)
  const whole = proven.filter(({ series }) => !isInParts(series))
  const inParts = proven.filter(({ series }) => isInParts(series))
  if (whole.length > 0) await addingWhole(whole, sql`true`).execute(db)
  if (inParts.length > 0) {
    await lockSeries(
      db,
      inParts.map(({ series }) => series),
    )
    await addLockedCoverages(db, inParts)
  }
}

/** The statement that adds ranges of series that are no fills, under a condition. */
export function addingWhole(claims: readonly Claim[], condition: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`
    insert into recorder.known as k (stream, category, symbol, type, interval, verdict, ranges)
    select stream, category, symbol, type, interval, 'recorded', ranges from ${claimsAsRows(claims)} where ${condition}
    order by stream, category, symbol, type, interval ${addingRanges}`
}

/**
 * Adds proven ranges of fills, of series whose coverage the transaction has locked.
 *
 * Fills that were lost leave a gap each, of busy instruments many in an hour: in one value, which is written as a whole, months of
 * them would cost a page more than all else about it. So their ranges are kept in parts by time, of which a page writes the
 * newest. A part that is full is left as it is, and what comes after a gap begins the next one, which goes on until there is
 * another. What is proven is the union of all parts, so nothing depends on where one ends.
 */
export async function addLockedCoverages(db: Kysely<Database>, claims: readonly Claim[]): Promise<void> {
  const proven = provenOf(claims)
  if (proven.length === 0) return
  await sql`
    insert into recorder.known as k (stream, category, symbol, type, interval, verdict, part, ranges)
    select c.stream, c.category, c.symbol, c.type, c.interval, 'recorded', p.part, range_agg(r * tstzrange(p.part, p.until))
    from ${claimsAsRows(proven)} cross join lateral (
      select part, lead(part) over (order by part) as until from (
        -- From the one that the claim begins in.
        select part from recorder.known s where ${isRecorded('s', 'c')} and part >= (
          select max(b.part) from recorder.known b where ${isRecorded('b', 'c')} and b.part <= lower(c.ranges))
        union
        select upper(n.ranges) from (
          select ranges from recorder.known s where ${isRecorded('s', 'c')} order by part desc limit 1
        ) n
        where upper(n.ranges) < lower(c.ranges) and (select count(*) from unnest(n.ranges)) >= ${rangesPerPart}
      ) as found
    ) p cross join lateral unnest(c.ranges) as r
    where r && tstzrange(p.part, p.until)
    group by c.stream, c.category, c.symbol, c.type, c.interval, p.part
    order by c.stream, c.category, c.symbol, c.type, c.interval, p.part ${addingRanges}`.execute(db)
}

interface Claim {
  readonly series: Series
  readonly ranges: readonly TimeRange[]
}

/** A part with so many ranges is full: a thousandth of a second's work, and two kilobytes of WAL. */
const rangesPerPart = 128

function isInParts({ stream }: Series): boolean {
  return stream === 'fills'
}

function provenOf(claims: readonly Claim[]): Claim[] {
  return claims
    .map(({ series, ranges }) => ({ series, ranges: ranges.filter(({ from, to }) => from < to) }))
    .filter(({ ranges }) => ranges.length > 0)
}

/** Rows of what is recorded, `a`, of the series that the rows `b` name. */
function isRecorded(a: string, b: string): RawBuilder<unknown> {
  return sql`${sameSeries(a, b)} and ${is('recorded', a)}`
}

/** Rows `c` with a column for each part of the name of a series, and `ranges`. */
function claimsAsRows(claims: readonly Claim[]): RawBuilder<unknown> {
  return sql`(
    select stream, category, symbol, type, interval, ranges::tstzmultirange as ranges
    from unnest(${seriesArrays(claims.map(({ series }) => series))},
      ${claims.map(({ ranges }) => multirangeText(ranges))}::text[]) as claim (stream, category, symbol, type, interval, ranges)
  ) as c`
}

/** One array for each column that names a series. */
function seriesArrays(series: readonly Series[]): RawBuilder<unknown> {
  const keys = series.map(seriesColumns)
  const names = ['stream', 'category', 'symbol', 'type', 'interval'] as const
  return sql.join(
    names.map(
      (name) => sql`${keys.map((key) => key[name])}::${sql.raw(name === 'category' ? 'market.category' : 'text')}[]`,
    ),
  )
}

/**
 * Makes other transactions wait that read the coverage of these series to change it; ends with the transaction. Resolves to
 * what is proven of each, ascending: the ranges that end later than its `since`, and the one before them. Of the first of
 * them the beginning may be missing.
 *
 * @param wanted each series at most once
 */
export async function lockCoverage(
  db: Kysely<Database>,
  wanted: readonly { readonly series: Series; readonly since: TimeMs | null }[],
): Promise<TimeRange[][]> {
  await lockSeries(
    db,
    wanted.map(({ series }) => series),
  )
  const since = wanted.map(({ since: time }) => (time === null ? '-infinity' : new Date(time).toISOString()))
  // After the lock, in a statement of its own: one that waits for a lock sees of other rows what was there before it waited.
  const { rows } = await sql<{ place: number; ranges: readonly (readonly [TimeMs, TimeMs])[] }>`
    select k.place::int, ${rangesAsJson(sql`(
      select range_agg(r) from unnest(m.ranges) as r
      where upper(r) >= coalesce(
        (select max(upper(before)) from unnest(m.ranges) as before where upper(before) <= k.since), '-infinity'))`)} as ranges
    from unnest(${seriesArrays(wanted.map(({ series }) => series))}, ${since}::timestamptz[])
      with ordinality as k (stream, category, symbol, type, interval, since, place)
    cross join lateral (
      select range_agg(r) as ranges
      from recorder.known c cross join lateral unnest(c.ranges) as r
      -- The last part that begins before may begin with a range that ends later: then the one before that is in the part before.
      where ${isRecorded('c', 'k')} and c.part >= coalesce((
        select f.part from recorder.known f
        where ${isRecorded('f', 'k')} and f.part <= k.since and not isempty(f.ranges)
        order by f.part desc offset 1 limit 1), '-infinity')
    ) m`.execute(db)
  const byPlace = new Map(rows.map(({ place, ranges }) => [place, toRanges(ranges)]))
  return wanted.map((_, index) => byPlace.get(index + 1) ?? [])
}

/** Takes the lock on each of these series until the transaction ends: the row of its first part, which is there from now on. */
async function lockSeries(db: Kysely<Database>, series: readonly Series[]): Promise<void> {
  const keys = sql`unnest(${seriesArrays(series)}) as k (stream, category, symbol, type, interval)`
  const firstParts = sql`${keys} join recorder.known c using (stream, category, symbol, type, interval)`
  const isFirst = sql`c.part = '-infinity' and ${is('recorded', 'c')}`
  const lockRows = async (condition: RawBuilder<unknown>) => {
    const { rows } = await sql`
      select from ${firstParts} where ${isFirst} and ${condition}
      order by c.stream, c.category, c.symbol, c.type, c.interval
      for update of c`.execute(db)
    return rows.length
  }
  // In one order everywhere, and none is locked before all are there, so that two transactions never wait for each other.
  const areAllThere = sql`(select count(*) from ${firstParts} where ${isFirst}) = ${series.length}`
  if ((await lockRows(areAllThere)) === series.length) return
  await sql`
    insert into recorder.known (stream, category, symbol, type, interval, verdict, ranges)
    select stream, category, symbol, type, interval, 'recorded', '{}' from ${keys}
    order by stream, category, symbol, type, interval
    on conflict do nothing`.execute(db)
  await lockRows(sql`true`)
}
