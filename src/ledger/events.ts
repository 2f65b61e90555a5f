import { type Kysely, sql } from 'kysely'
import type { Category, InstrumentKey } from '../market/category.js'
import type { StreamName } from '../market/stream.js'
import type { Ranges, TimeRange } from '../market/timeRange.js'
import type { TimeMs } from '../market/values.js'
import { instant, toDate } from '../db/columns.js'
import { callFunction } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { sameSeries, type Series } from '../db/series.js'
import { attemptsWhere, type RepairAttempts } from './wants.js'
import { is, knownOf, multirangeText, rangesAsJson, toRanges } from './verdicts.js'

/** Adds proven ranges of an instrument, and records gaps between them. Resolves to the number of new gaps. */
export async function claimEvents(
  trx: Kysely<Database>,
  { stream, category, symbol }: Series,
  claim: Ranges,
  reason: string,
): Promise<number> {
  if (claim.length === 0) return 0
  return callFunction(trx, 'recorder.claim_events', stream, category, symbol, multirangeText(claim), reason)
}

/** Resolves to the end of the proven time of an instrument; null if nothing is proven. */
export async function recordedUntil(db: Kysely<Database>, series: Series): Promise<TimeMs | null> {
  const row = await db
    .selectFrom('recorder.known')
    .select(({ fn }) => fn<TimeMs | null>('upper', ['ranges']).as('until'))
    .where(knownOf(series, 'recorded'))
    .executeTakeFirst()
  return row?.until ?? null
}

/** Marks open gaps of a stream that end by a time as lost, because the service gives nothing older. */
export async function loseGaps(
  db: Kysely<Database>,
  stream: StreamName,
  until: TimeMs | 'infinity',
  categories: readonly Category[] | null = null,
): Promise<void> {
  await callFunction(db, 'recorder.lose_gaps', stream, until === 'infinity' ? until : toDate(until), categories)
}

/** Marks lost gaps of a stream that end after a time as open, because the service still has that time. */
export async function reopenGaps(
  db: Kysely<Database>,
  stream: StreamName,
  since: TimeMs,
  categories: readonly Category[],
): Promise<void> {
  await callFunction(db, 'recorder.reopen_gaps', stream, toDate(since), categories)
}

/** Missing ranges of an instrument, with the repairs that were tried in vain. */
interface MissingOfInstrument extends InstrumentKey, RepairAttempts {
  readonly missing: readonly TimeRange[]
}

/** Finds what instruments of a stream lack between `since` and the end of their proven time, if any is proven. */
export async function missingOfStream(
  db: Kysely<Database>,
  stream: StreamName,
  since: TimeMs,
): Promise<MissingOfInstrument[]> {
  const begin = instant(since)
  const { rows } = await sql<Omit<MissingOfInstrument, 'missing'> & { readonly ranges: [TimeMs, TimeMs][] }>`
    select k.category, k.symbol, ${rangesAsJson('m.missing')} as ranges, w.*
    from recorder.known k
    cross join lateral (
      select tstzmultirange(tstzrange(${begin}, greatest(${begin}, upper(k.ranges)))) - k.ranges as missing
    ) m
    cross join lateral (${attemptsWhere(sql`${sameSeries('w', 'k')} and w.ranges && m.missing`)}) w
    where k.stream = ${stream} and ${is('recorded', 'k')} and k.part = '-infinity' and not isempty(m.missing)`.execute(
    db,
  )
  return rows.map(({ ranges, ...of }) => ({ ...of, missing: toRanges(ranges) }))
}
