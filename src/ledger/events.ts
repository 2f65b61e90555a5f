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

/** Adds what responses prove of an instrument, and books what lies between as gaps. Resolves to the number of new gaps. */
export async function claimEvents(
  trx: Kysely<Database>,
  { stream, category, symbol }: Series,
  claim: Ranges,
  reason: string,
): Promise<number> {
  if (claim.length === 0) return 0
  return callFunction(trx, 'recorder.claim_events', stream, category, symbol, multirangeText(claim), reason)
}

/** The end of what is proven of an instrument; null when nothing is. */
export async function recordedUntil(db: Kysely<Database>, series: Series): Promise<TimeMs | null> {
  const row = await db
    .selectFrom('recorder.known')
    .select(({ fn }) => fn<TimeMs | null>('upper', ['ranges']).as('until'))
    .where(knownOf(series, 'recorded'))
    .executeTakeFirst()
  return row?.until ?? null
}

/** Makes lost gaps of the open ones of a stream that end by a time: the service gives nothing older. */
export async function loseGaps(
  db: Kysely<Database>,
  stream: StreamName,
  until: TimeMs | 'infinity',
  categories: readonly Category[] | null = null,
): Promise<void> {
  await callFunction(db, 'recorder.lose_gaps', stream, until === 'infinity' ? until : toDate(until), categories)
}

/** Makes open gaps of the lost ones of a stream that end after a time: the service gives them after all. */
export async function reopenGaps(
  db: Kysely<Database>,
  stream: StreamName,
  since: TimeMs,
  categories: readonly Category[],
): Promise<void> {
  await callFunction(db, 'recorder.reopen_gaps', stream, toDate(since), categories)
}

/** What is missing of an instrument, and how often it was wanted in vain. */
interface MissingOfInstrument extends InstrumentKey, RepairAttempts {
  readonly missing: readonly TimeRange[]
}

/** What is missing since a time, up to what is proven last, of each instrument that a stream has anything of. */
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
