import { type Kysely, sql } from 'kysely'
import { addCoverages } from '../../ledger/proof/coverage.js'
import type { RecorderDatabase } from '../../db/database.js'
import type { Database, SeriesColumns } from '../../db/schema.js'
import { seriesOf } from '../../db/series.js'
import { openParquet } from '../parquet/read.js'
import type { Compression } from '../parquet/zstd.js'
import { fileDigest } from './stageDay.js'
import { decimalText } from '../parquet/decimals.js'
import { timeText } from './values.js'
import type { Manifest, ManifestColumn, SeriesProof } from './manifest.js'
import type { ArchiveTarget } from './target.js'

export interface RestoreOptions {
  readonly compression: Compression
  /** Told the rows so far; may throw to end it. */
  readonly onRows?: (rows: number) => void
}

const rowsPerStatement = 2_000

/**
 * Brings a day back: its rows, then what is proven of them. What the database has already stays as it is, so that a second call
 * changes nothing. Resolves to how many rows were new. Throws when a file is not what was written.
 */
export async function restoreDay(
  database: RecorderDatabase,
  target: ArchiveTarget,
  manifest: Manifest,
  { compression, onRows }: RestoreOptions,
): Promise<number> {
  let done = 0
  let inserted = 0
  for (const file of manifest.files) {
    const fetched = await target.fetch(file.path)
    try {
      const { sha256 } = await fileDigest(fetched.localPath)
      if (sha256 !== file.sha256) throw new Error(`${file.path} is not what was written: nothing of it was restored`)
      for await (const batch of (await openParquet(fetched.localPath, compression)).batches()) {
        for (let i = 0; i < batch.length; i += rowsPerStatement) {
          inserted += await insertRows(database.db, manifest, batch.slice(i, i + rowsPerStatement))
          onRows?.((done += Math.min(rowsPerStatement, batch.length - i)))
        }
      }
    } finally {
      await fetched.release()
    }
  }
  await database.db.transaction().execute((trx) => restoreProof(trx, manifest.proof))
  return inserted
}

async function insertRows(
  db: Kysely<Database>,
  { table, columns }: Manifest,
  rows: readonly (readonly unknown[])[],
): Promise<number> {
  const arrays = columns.map((column, i) => {
    const text = textOf(column)
    return sql`${rows.map((row) => (row[i] === null || row[i] === undefined ? null : text(row[i])))}::text[]`
  })
  const target = sql.table(`market.${table}`)
  const names = columns.map(({ name }) => sql.ref(name))
  const values = columns.map(
    ({ name }, i) => sql`cast(${sql.ref(`v.c${i}`)} as ${sql.raw(castOf(table, name, columns))})`,
  )
  const aliases = columns.map((_, i) => sql.ref(`c${i}`))
  const { numAffectedRows = 0n } = await sql`
    insert into ${target} (${sql.join(names)})
    select ${sql.join(values)} from unnest(${sql.join(arrays)}) as v (${sql.join(aliases)})
    on conflict do nothing`.execute(db)
  return Number(numAffectedRows)
}

/** Enums are the only types that the name of a column does not tell. */
function castOf(table: string, name: string, columns: readonly ManifestColumn[]): string {
  const type = columns.find((column) => column.name === name)?.type ?? 'text'
  if (type === '_numeric') return 'numeric[]'
  const isEnum = ['category', 'candle_type', 'candle_interval', 'side'].includes(type)
  if (isEnum) return `market.${type}`
  if (!/^[a-z0-9_]+$/.test(type)) throw new Error(`the archive has a column of an unknown type: ${table}.${name}`)
  return type
}

function textOf({ type, digits, scale }: ManifestColumn): (value: unknown) => string {
  const decimal = (value: unknown) => (value instanceof Uint8Array ? decimalText(value, scale ?? 0) : String(value))
  if (type === 'numeric' && digits !== undefined) return decimal
  if (type === '_numeric') {
    return (value) => `{${(value as unknown[]).map((each) => (each === null ? 'NULL' : decimal(each))).join(',')}}`
  }
  if (type === 'timestamptz') return (value) => timeText(value as bigint)
  return String
}

/** Coverage, gaps, ranges without a trade, revisions and restatements, as they were. */
async function restoreProof(db: Kysely<Database>, proof: readonly SeriesProof[]): Promise<void> {
  await addCoverages(
    db,
    proof.map((one) => ({ series: seriesOf(one as SeriesColumns), ranges: one.coverage.map(toRange) })),
  )
  for (const one of proof) {
    const { stream, category, symbol, type, interval } = one
    if (one.empty.length > 0) {
      await sql`
        insert into recorder.empty_range as e (stream, category, symbol, type, interval, ranges)
        values (${stream}, ${category}, ${symbol}, ${type}, ${interval}, ${multirangeOf(one.empty)}::tstzmultirange)
        on conflict (stream, category, symbol, type, interval) do update
          set ranges = e.ranges + excluded.ranges where not e.ranges @> excluded.ranges`.execute(db)
    }
    for (const gap of one.gaps) {
      await sql`
        insert into recorder.gap
          (stream, category, symbol, type, interval, range, reason, state, detected_at, repaired_at, lost_at)
        values (${stream}, ${category}, ${symbol}, ${type}, ${interval},
          tstzrange(${gap.from}::timestamptz, ${gap.to}::timestamptz), ${gap.reason}, ${gap.state},
          ${gap.detectedAt}::timestamptz, ${gap.repairedAt}::timestamptz, ${gap.lostAt}::timestamptz)
        on conflict (stream, category, symbol, type, interval, range) do nothing`.execute(db)
    }
    if (stream === 'candles') await restoreCandleProof(db, one)
  }
}

async function restoreCandleProof(db: Kysely<Database>, one: SeriesProof): Promise<void> {
  const series = sql`${one.category}::market.category, ${one.symbol}, ${one.type}::market.candle_type,
    ${one.interval}::market.candle_interval`
  if (one.noTrade.length > 0) {
    await sql`
      insert into recorder.no_trade as n (category, symbol, type, interval, part, ranges, confirmed)
      select ${series}, part, range_agg(r), range_agg(r) * ${multirangeOf(one.noTradeConfirmed)}::tstzmultirange
      from unnest(${multirangeOf(one.noTrade)}::tstzmultirange) as r cross join lateral (
        select date_bin(market.interval_length(${one.interval}::market.candle_interval) * 1440, lower(r),
          timestamptz 'epoch') as part) as p
      group by part
      on conflict (category, symbol, type, interval, part) do update
        set ranges = n.ranges + excluded.ranges, confirmed = n.confirmed + excluded.confirmed
        where not (n.ranges @> excluded.ranges and n.confirmed @> excluded.confirmed)`.execute(db)
  }
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

function toRange([from, to]: readonly [string, string]): { from: number; to: number } {
  return { from: Date.parse(from), to: Date.parse(to) }
}

function multirangeOf(ranges: readonly (readonly [string, string])[]): string {
  return `{${ranges.map(([from, to]) => `["${from}","${to}")`).join(',')}}`
}
