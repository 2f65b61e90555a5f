import { createHash } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { RejectedRow } from '../market/rows.js'
import { hourMs, type MachineMs } from '../market/values.js'
import { type ColumnSpec, columnNames, type ColumnValue, rowsFrom } from '../db/columns.js'
import type { Database } from '../db/schema.js'
import { inStatements } from '../db/writeRows.js'
import type { WriteResult } from '../db/writeRows.js'

const columns: readonly ColumnSpec[] = [
  { name: 'digest', kind: 'text' },
  { name: 'operation', kind: 'text' },
  { name: 'parameters', kind: 'json' },
  { name: 'reason', kind: 'text' },
  { name: 'raw', kind: 'text' },
  { name: 'raw_sha256', kind: 'text' },
  { name: 'raw_bytes', kind: 'integer' },
  { name: 'first_seen_at', kind: 'time' },
  { name: 'last_seen_at', kind: 'time' },
]

/**
 * Number of new rejected rows of one operation that are kept in an hour, for all recorders together. Whatever the
 * service sends, those of a month take some 4 GB at most. `readRows` bounds those of one response. Fills that contradict
 * stored ones do not come here: `recorder.reject_fills` keeps ten times as many.
 */
const maxPerHour = 1_000

/**
 * Keeps rows that could not be understood, received at `at`. A row that comes with every response is kept once and
 * counted. Rows beyond the hourly bound are left out.
 */
export async function insertRejectedRows(
  db: Kysely<Database>,
  rows: readonly RejectedRow[],
  at: MachineMs,
): Promise<WriteResult> {
  const hourBefore = sql`${new Date(at - hourMs)}::timestamptz`
  return inStatements(rows, async (part) => {
    const operations = new Set(part.map(({ operation }) => operation))
    const unique = new Map(part.map((row) => [digestOf(row), row]))
    const kept = [...unique].map(([digest, row]) => values(digest, row, at))
    const source = rowsFrom(kept, columns, (row, column) => row[column] ?? null)
    // A row counts again only if it was seen later than before. So a replayed batch changes nothing.
    const { rows: written } = await sql<{ inserted: number; updated: number }>`
      with recent as materialized (
        select operation, count(*) as kept from recorder.rejected_row
        where operation = any (${[...operations]}::text[])
          and first_seen_at > ${hourBefore} and first_seen_at <= ${new Date(at)}::timestamptz
        group by operation
      ), written as (
        insert into recorder.rejected_row as kept (${columnNames(columns)})
        select ${columnNames(columns)} from ${source} as incoming left join recent using (operation)
        where incoming.ordinality <= ${sql.lit(maxPerHour)} - coalesce(recent.kept, 0)
          or exists (select from recorder.rejected_row same where same.digest = incoming.digest)
        order by digest
        on conflict (digest) do update
          set last_seen_at = excluded.last_seen_at, times_seen = kept.times_seen + 1
          where excluded.last_seen_at > kept.last_seen_at
        returning kept.xmax = 0 as is_new
      )
      select count(*) filter (where is_new) as inserted, count(*) filter (where not is_new) as updated from written
    `.execute(db)
    return written[0] ?? { inserted: 0, updated: 0 }
  })
}

function values(digest: string, row: RejectedRow, at: MachineMs): ColumnValue[] {
  const { operation, parameters, reason, raw, rawSha256, rawBytes } = row
  return [digest, operation, parameters, reason, raw, rawSha256, rawBytes, at, at]
}

function digestOf({ operation, parameters, reason, rawSha256 }: RejectedRow): string {
  return createHash('sha256')
    .update(JSON.stringify([operation, parameters, reason, rawSha256]))
    .digest('hex')
}
