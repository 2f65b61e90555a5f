import { type Kysely, type RawBuilder, sql } from 'kysely'
import { dayMs, type TimeMs } from '../../market/values.js'
import { candleLengths } from '../../db/candleLengths.js'
import type { Database } from '../../db/schema.js'
import { noteRemoval } from './rollups.js'
import { detectServer } from './server.js'
import { seriesByKey, type TimeTable, timeTables } from '../../db/timeTables.js'
import type { StorageSettings } from './settings.js'

/** Few enough that a statement ends soon and holds nobody up. */
const rowsPerDelete = 10_000

/**
 * Removes what is older than the configuration keeps, and takes it back from what is proven to be stored. Returns what was
 * removed, one line a table; empty when nothing was. To be called again and again: only TimescaleDB Community removes rows by
 * itself. Cannot run in a transaction.
 */
export async function applyRetention(
  db: Kysely<Database>,
  settings: StorageSettings,
  now: TimeMs,
  signal?: AbortSignal,
): Promise<string[]> {
  const { kind } = await detectServer(db)
  const removed: string[] = []
  for (const table of timeTables) {
    const { retentionDays, isArchived } = settings[table.name]
    if (retentionDays === undefined || isArchived === true || signal?.aborted === true) continue
    const before = new Date(now - retentionDays * dayMs)
    // First, so that nothing is claimed that is gone. What stays a while longer with its chunk is then merely not claimed.
    await forgetCoverage(db, table.name, before)
    if (table.name === 'candles') await noteRemoval(db, before)
    const what = await removeRows[kind](db, table, before, signal)
    if (what !== undefined) removed.push(`removed ${what} of market.${table.name} from before ${before.toISOString()}`)
  }
  const before = new Date(now - settings.rejected_row.retentionDays * dayMs)
  const rejected = await deleteRejected(db, before, signal)
  if (rejected > 0) removed.push(`removed ${rejected} of recorder.rejected_row from before ${before.toISOString()}`)
  return removed
}

/** Rows that could not be understood and have not come again since. */
async function deleteRejected(db: Kysely<Database>, before: Date, signal?: AbortSignal): Promise<number> {
  for (let total = 0; ;) {
    const { numAffectedRows = 0n } = await sql`
      delete from recorder.rejected_row where digest = any(array(
        select digest from recorder.rejected_row where last_seen_at < ${before}::timestamptz
        limit ${sql.lit(rowsPerDelete)}
      ))`.execute(db)
    total += Number(numAffectedRows)
    if (numAffectedRows < rowsPerDelete || signal?.aborted === true) return total
  }
}

type Remove = (
  db: Kysely<Database>,
  table: TimeTable,
  before: Date,
  signal?: AbortSignal,
) => Promise<string | undefined>

const removeRows: Readonly<Record<'postgresql' | 'timescale-apache' | 'timescale-community', Remove>> = {
  postgresql: deleteRows,
  'timescale-apache': dropChunks,
  'timescale-community': () => Promise.resolve(undefined),
}

/** Takes back what is said of the time before: what is proven of it, and what is missing in it. */
export async function forgetCoverage(db: Kysely<Database>, stream: string, before: Date): Promise<void> {
  const past = upTo(sql`${before}::timestamptz`)
  await deleteGaps(db, stream, before)
  if (stream !== 'candles') {
    await sql`
      update recorder.coverage set ranges = ranges - ${past}, updated_at = now()
      where stream = ${stream} and ranges && ${past}`.execute(db)
    // The first part stays: its row is the lock on the series.
    await sql`
      delete from recorder.coverage where stream = ${stream} and part > '-infinity' and isempty(ranges)`.execute(db)
    return
  }
  const pastCandles = upTo(nextOpening(before))
  await sql`
    update recorder.coverage set ranges = ranges - ${pastCandles}, updated_at = now()
    from ${candleLengths}
    where stream = 'candles' and lengths.interval = coverage.interval and ranges && ${past}`.execute(db)
  await sql`delete from recorder.no_trade where until <= ${before}::timestamptz`.execute(db)
  await sql`
    update recorder.no_trade set ranges = ranges - ${pastCandles}, confirmed = confirmed - ${pastCandles}
    from ${candleLengths}
    where lengths.interval = no_trade.interval::text and part < ${before}::timestamptz and ranges && ${past}`.execute(
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

/** Of time that is not kept nobody asks what is missing in it. */
async function deleteGaps(db: Kysely<Database>, stream: string, before: Date): Promise<void> {
  for (;;) {
    const { numAffectedRows = 0n } = await sql`
      delete from recorder.gap where ctid = any(array(
        select ctid from recorder.gap where stream = ${stream} and upper(range) <= ${before}::timestamptz
        limit ${sql.lit(rowsPerDelete)}
      ))`.execute(db)
    if (numAffectedRows < rowsPerDelete) return
  }
}

async function dropChunks(db: Kysely<Database>, { name }: TimeTable, before: Date): Promise<string | undefined> {
  const { rows } = await db.transaction().execute(async (trx) => {
    // A reader's open transaction must not make the recording queue up behind the removal.
    await sql`set local lock_timeout = '10s'`.execute(trx)
    return sql`
      select public.drop_chunks(${`market.${name}`}::regclass, older_than => ${before}::timestamptz)`.execute(trx)
  })
  return rows.length === 0 ? undefined : `${rows.length} ${rows.length === 1 ? 'chunk' : 'chunks'}`
}

/**
 * Row by row, along the key: there is no index on the time alone, and one would cost every insert. Each series is found by a
 * step in the index, so that what there is nothing to remove of costs one look.
 */
async function deleteRows(
  db: Kysely<Database>,
  table: TimeTable,
  before: Date,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const { series, keyOf } = seriesByKey(table)
  const rows = sql.table(`market.${table.name}`)
  const time = sql.ref(`t.${table.timeColumn}`)
  let total = 0
  for (;;) {
    const { numAffectedRows = 0n } = await sql`
      with recursive ${sql.raw(series)}
      delete from ${rows} where ctid = any(array(
        select old.ctid from series s cross join lateral (
          select t.ctid from ${rows} t
          where (${sql.raw(keyOf('t'))}) = (${sql.raw(keyOf('s'))}) and ${time} < ${before}::timestamptz
          order by ${time} limit ${sql.lit(rowsPerDelete)}
        ) old
        limit ${sql.lit(rowsPerDelete)}
      ))`.execute(db)
    total += Number(numAffectedRows)
    if (numAffectedRows < rowsPerDelete || signal?.aborted === true) break
  }
  return total === 0 ? undefined : `${total} ${total === 1 ? 'row' : 'rows'}`
}
