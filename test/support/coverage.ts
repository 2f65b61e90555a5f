import { type Kysely, sql } from 'kysely'
import type { TimeRange } from '../../src/market/timeRange.js'
import type { TimeMs } from '../../src/market/values.js'
import { callFunction } from '../../src/db/database.js'
import type { Database } from '../../src/db/schema.js'
import { addingRanges, type Series, seriesValues } from '../../src/db/series.js'
import { multirange, multirangeText } from '../../src/ledger/verdicts.js'

/** The parts of a range that are not proven yet, ascending. */
export async function missingRanges(db: Kysely<Database>, series: Series, range: TimeRange): Promise<TimeRange[]> {
  if (range.from >= range.to) return []
  const { stream, category, symbol, type, interval } = series
  const { rows } = await sql<{ from: TimeMs; to: TimeMs }>`
    select lower(r) as "from", upper(r) as "to"
    from unnest(${multirange([range])} - coalesce((
      select ranges from recorder_page.coverage
      where stream = ${stream} and category = ${category} and symbol = ${symbol}
        and type = ${type} and interval = ${interval}
    ), '{}'::tstzmultirange)) as r
    order by 1`.execute(db)
  return rows.map(({ from, to }) => ({ from, to }))
}

/** The proven ranges of a series, ascending. */
export async function coveredRanges(db: Kysely<Database>, series: Series): Promise<TimeRange[]> {
  const { stream, category, symbol, type, interval } = series
  const { rows } = await sql<{ from: TimeMs; to: TimeMs }>`
    select lower(r) as "from", upper(r) as "to"
    from recorder_page.coverage c cross join lateral unnest(c.ranges) as r
    where stream = ${stream} and category = ${category} and symbol = ${symbol}
      and type = ${type} and interval = ${interval}
    order by 1`.execute(db)
  return rows.map(({ from, to }) => ({ from, to }))
}

/** Claims ranges of a series without the rows that prove them. */
export async function addCoverage(db: Kysely<Database>, series: Series, ranges: readonly TimeRange[]): Promise<void> {
  const proven = multirangeText(ranges.filter(({ from, to }) => from < to))
  if (proven === '{}') return
  const { stream, category, symbol } = series
  if (stream === 'fills') return callFunction(db, 'recorder.cover_fills', category, symbol, proven)
  await sql`
    insert into recorder.ledger as k (stream, category, symbol, type, interval, verdict, ranges, noted_at)
    values (${sql.join(seriesValues(series))}, 'recorded', ${proven}, '-infinity') ${addingRanges}`.execute(db)
}
