import { type Kysely, sql } from 'kysely'
import type { TimeRange } from '../../src/market/timeRange.js'
import type { TimeMs } from '../../src/market/values.js'
import type { Database } from '../../src/db/schema.js'
import type { Series } from '../../src/db/series.js'
import { multirange } from '../../src/ledger/verdicts.js'

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
