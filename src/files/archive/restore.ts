import { type Kysely, sql } from 'kysely'
import type { RecorderDatabase } from '../../db/database.js'
import type { Database } from '../../db/schema.js'
import { type Series, seriesOf } from '../../db/series.js'
import { addCoverages } from '../../ledger/verdicts.js'
import { restoreGaps, restoreSilence } from '../../ledger/restore.js'
import { archivedRows, type ArchiveReader, checkDay, readCheckedDay } from './checkDay.js'
import {
  listNewest,
  type Manifest,
  type ManifestColumn,
  type ManifestPlace,
  proofDigest,
  type SeriesProof,
} from './manifest.js'
import { readProof } from './proof.js'
import { type Snapshot, tableColumns, withSnapshot } from './rows.js'
import { type FileRow, serverRow, timeText } from './rowText.js'
import { noteArchivedDay, readArchivedDays, withArchiveLock } from './state.js'
import { archivedTable, type Day, type DayRange, isInRange } from './tables.js'
import { type ArchiveTarget, DamagedArchive } from './target.js'
import type { TimeRange } from '../../market/timeRange.js'
import { serviceMs } from '../../market/values.js'

/** For a table that is archived whole, the newest day before `to` is restored. */
interface RestoreRequest extends DayRange {
  readonly tables: readonly string[]
}

interface RestoredDay extends ManifestPlace {
  /** Number of rows in the archive. */
  readonly rows: number
  /** Number of rows that the database did not have. */
  readonly inserted: number
}

interface RestoreOptions {
  readonly signal?: AbortSignal
  readonly onDay?: (day: RestoredDay) => void
}

interface RestoreResult {
  readonly restored: readonly RestoredDay[]
  /** Why days were not restored, one line each. The archive of these days is damaged, or has unknown columns. */
  readonly problems: readonly string[]
}

const rowsPerStatement = 2_000

/** Thrown for a day with a column that the database does not have, because a newer program has written it. */
class UnknownColumn extends Error {}

/**
 * Restores days to the database, with their proof. Existing rows stay, so a second call changes nothing. Nothing is
 * restored of a day whose archive is damaged or has unknown columns.
 */
export async function restoreArchive(
  database: RecorderDatabase,
  target: ArchiveTarget,
  { tables, ...range }: RestoreRequest,
  { signal, onDay }: RestoreOptions = {},
): Promise<RestoreResult> {
  return withArchiveLock(database.db, async () => {
    const reader = { target, signal }
    const restored: RestoredDay[] = []
    const problems: string[] = []
    for (const table of tables) {
      const notedDays = await readArchivedDays(database.db, table)
      const isWhole = archivedTable(table).timeColumn === undefined
      const wanted = await listNewest(target, table, { ...range, isWhole })
      for (const day of isWhole ? [] : notedDays.keys()) {
        if (isInRange(day, range) && !wanted.some((one) => one.day === day)) problems.push(goneFrom(table, day))
      }
      // Of a gap over several days, the newest day knows most.
      for (const place of wanted.toReversed()) {
        try {
          const manifest = await readCheckedDay(reader, place, notedDays.get(place.day))
          const one = { ...place, rows: manifest.rows, inserted: await restoreDay(database, reader, manifest) }
          restored.push(one)
          onDay?.(one)
        } catch (error) {
          if (!(error instanceof DamagedArchive) && !(error instanceof UnknownColumn)) throw error
          const remedy =
            error instanceof UnknownColumn
              ? 'use the version of market-recorder that wrote the archive, or a newer one'
              : 'bring it back from a copy of the archive'
          problems.push(`${error.message}; nothing of ${table} of ${place.day} was restored: ${remedy}`)
        }
      }
    }
    return { restored, problems }
  })
}

function goneFrom(table: string, day: Day): string {
  return `${table} of ${day} was archived, and is not in the archive: bring it back from a copy`
}

/** Restores a day, the proof after its rows, so that no claim lacks its rows. Resolves to the number of new rows. */
async function restoreDay(database: RecorderDatabase, reader: ArchiveReader, manifest: Manifest): Promise<number> {
  const { table, day, columns } = manifest
  const described = await withSnapshot(database, (snapshot) => tableColumns(snapshot, archivedTable(table)))
  const foreign = columns.find((one) => !described.some(({ name, type }) => name === one.name && type === one.type))
  if (foreign !== undefined) {
    const column = `${foreign.name} ${foreign.type}`
    throw new UnknownColumn(`${table} of ${day} has a column ${column}, which the database does not have`)
  }
  let inserted = 0
  for (const category of Object.keys(manifest.digests)) {
    for await (const { rows } of archivedRows(reader, manifest, category)) {
      for (let i = 0; i < rows.length; i += rowsPerStatement) {
        inserted += await insertRows(database.db, manifest, rows.slice(i, i + rowsPerStatement))
        reader.signal?.throwIfAborted()
      }
    }
  }
  await database.db.transaction().execute((trx) => restoreProof(trx, manifest.proof))
  const compare = async (snapshot: Snapshot) => {
    if (archivedTable(table).timeColumn === undefined) return true
    const proof = await readProof(snapshot, archivedTable(table), day)
    return (
      proofDigest(proof) === manifest.proofSha256 && (await checkDay(reader, manifest, snapshot)).difference === null
    )
  }
  const isAsArchived = await withSnapshot(database, compare, { table: archivedTable(table) })
  // The database may have had more of the day than the archive. Such a day is due.
  await noteArchivedDay(database.db, { manifest, proofDigest: isAsArchived ? manifest.proofSha256 : '' })
  return inserted
}

/** @param columns columns with the names and types of the table */
async function insertRows(
  db: Kysely<Database>,
  { table, columns }: Pick<Manifest, 'table' | 'columns'>,
  rows: readonly FileRow[],
): Promise<number> {
  const toServer = serverRow(columns)
  const texts = rows.map(toServer)
  const arrays = columns.map(({ type }, i) => {
    const text = (value: string) => (type === 'timestamptz' ? timeText(BigInt(value)) : value)
    return sql`${texts.map((row) => (row[i] === null || row[i] === undefined ? null : text(row[i])))}::text[]`
  })
  const names = columns.map(({ name }) => sql.ref(name))
  const values = columns.map((column, i) => sql`cast(${sql.ref(`v.c${i}`)} as ${castOf(column)})`)
  const aliases = columns.map((_, i) => sql.ref(`c${i}`))
  const { numAffectedRows = 0n } = await sql`
    insert into ${sql.table(`market.${table}`)} (${sql.join(names)})
    select ${sql.join(values)} from unnest(${sql.join(arrays)}) as v (${sql.join(aliases)})
    on conflict do nothing`.execute(db)
  return Number(numAffectedRows)
}

function castOf({ type }: ManifestColumn) {
  if (type === '_numeric') return sql`numeric[]`
  // All other types of these columns are enums of the schema market.
  const isBuiltIn = ['text', 'numeric', 'timestamptz', 'bool', 'int2', 'int4', 'int8', 'jsonb'].includes(type)
  return isBuiltIn ? sql.ref(type) : sql.ref(`market.${type}`)
}

/** Restores coverage, gaps, ranges without trades, revisions and restatements. */
async function restoreProof(db: Kysely<Database>, proof: readonly SeriesProof[]): Promise<void> {
  await addCoverages(
    db,
    proof.map((one) => ({ series: seriesOf(one as Series), ranges: one.coverage.map(toRange) })),
  )
  for (const one of proof) {
    const series = seriesOf(one as Series)
    await restoreSilence(db, series, one)
    await restoreGaps(db, series, one.gaps)
    if (one.stream === 'candles') await restoreRevisions(db, one)
  }
}

async function restoreRevisions(db: Kysely<Database>, one: SeriesProof): Promise<void> {
  const series = sql`${one.category}::market.category, ${one.symbol}, ${one.type}::market.candle_type,
    ${one.interval}::market.candle_interval`
  for (const { from, to, numerator, denominator, candles, detectedAt } of one.restatements) {
    await sql`
      insert into recorder.restatement
        (category, symbol, type, interval, from_time, to_time, numerator, denominator, candles, detected_at)
      select ${series}, ${from}::timestamptz, ${to}::timestamptz, ${numerator}::numeric, ${denominator}::numeric,
        ${candles}::bigint, ${detectedAt}::timestamptz
      where not exists (
        select from recorder.restatement r
        where (r.category, r.symbol, r.type, r.interval) = (${series})
          and r.from_time = ${from}::timestamptz and r.to_time = ${to}::timestamptz
          and r.detected_at = ${detectedAt}::timestamptz)`.execute(db)
  }
  const names = ['open', 'high', 'low', 'close', 'base_volume', 'quote_turnover']
  const columns = ['old', 'new'].flatMap((when) => names.map((name) => sql.ref(`${when}_${name}`)))
  for (const { openTime, revisedAt, old, new: replaced } of one.revisions) {
    await sql`
      insert into recorder.candle_revision (category, symbol, type, interval, open_time, revised_at, ${sql.join(columns)})
      select ${series}, ${openTime}::timestamptz, ${revisedAt}::timestamptz,
        ${sql.join([...old, ...replaced].map((value) => sql`${value}::numeric`))}
      where not exists (
        select from recorder.candle_revision r
        where (r.category, r.symbol, r.type, r.interval) = (${series})
          and r.open_time = ${openTime}::timestamptz and r.revised_at = ${revisedAt}::timestamptz)`.execute(db)
  }
}

function toRange([from, to]: readonly [string, string]): TimeRange {
  return { from: serviceMs(Date.parse(from)), to: serviceMs(Date.parse(to)) }
}
