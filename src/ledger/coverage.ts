import { type Kysely, sql } from 'kysely'
import type { TimeRange } from '../market/timeRange.js'
import { rowsFrom } from '../db/columns.js'
import { callFunction } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { keyColumns, type Series, seriesColumns } from '../db/series.js'
import { addingRanges, multirangeText } from './verdicts.js'

/** Adds proven ranges. Call it in the transaction that writes their rows, so that a claim is never without them. */
export async function addCoverage(db: Kysely<Database>, series: Series, ranges: readonly TimeRange[]): Promise<void> {
  await addCoverages(db, [{ series, ranges }])
}

interface Claim {
  readonly series: Series
  readonly ranges: readonly TimeRange[]
}

/** Adds proven ranges of several series, each at most once. */
export async function addCoverages(db: Kysely<Database>, claims: readonly Claim[]): Promise<void> {
  const proven = claims
    .map(({ series, ranges }) => ({ ...seriesColumns(series), ranges: ranges.filter(({ from, to }) => from < to) }))
    .filter(({ ranges }) => ranges.length > 0)
    .map((claim) => ({ ...claim, ranges: multirangeText(claim.ranges) }))
  const fills = proven.filter(({ stream }) => stream === 'fills')
  if (fills.length > 0) {
    const valuesOf = (name: 'category' | 'symbol' | 'ranges') => fills.map((claim) => claim[name])
    await callFunction(db, 'recorder.cover_fills', valuesOf('category'), valuesOf('symbol'), valuesOf('ranges'))
  }
  const whole = proven.filter(({ stream }) => stream !== 'fills')
  if (whole.length === 0) return
  const source = rowsFrom(whole, columns, (claim, column) => claim[columns[column]?.name ?? 'ranges'])
  await sql`
    insert into recorder.known as k (stream, category, symbol, type, interval, verdict, ranges)
    select stream, category, symbol, type, interval, 'recorded', ranges::tstzmultirange from ${source} as claim
    order by stream, category, symbol, type, interval ${addingRanges}`.execute(db)
}

const columns = [...keyColumns, { name: 'ranges', kind: 'text' }] as const
