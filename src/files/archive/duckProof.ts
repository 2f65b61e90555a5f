import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { marketTables } from '../../market/stream.js'
import type { RecorderDatabase } from '../../db/database.js'
import { listDays, readManifest } from './manifest.js'
import { type Snapshot, withSnapshot } from './rows.js'
import { archivedTable, type Day } from './tables.js'
import type { ArchiveTarget } from './target.js'

interface ProofSource {
  readonly database?: RecorderDatabase
  /** Local folder for files that are needed only while the query runs. */
  readonly folder: string
  readonly isAsked: (day: Day) => boolean
  readonly signal?: AbortSignal | undefined
}

/** Value of `said_at` that sorts after every manifest, so that the database takes precedence for gaps that it knows. */
const fromDatabase = '9999'

const series = 'category, symbol, stream, type, interval'
const relations = {
  coverage: `
    with found as (
      select *, max(to_time) over (partition by ${series} order by from_time, to_time
        rows between unbounded preceding and 1 preceding) as known_to
      from recorder_proof where kind = 'coverage'
    ), islands as (
      -- Manifests cut ranges at the ends of days: what touches is one range again.
      select *, count(*) filter (where known_to is null or from_time > known_to)
        over (partition by ${series} order by from_time, to_time) as island
      from found
    )
    select ${series}, min(from_time) as from_time, max(to_time) as to_time from islands group by ${series}, island`,
  gaps: `
    select ${series}, from_time, to_time, reason, state from recorder_proof where kind = 'gaps'
    qualify row_number() over (partition by ${series}, from_time, to_time order by said_at desc) = 1`,
} as const

/** Statements of DuckDB for market.coverage and market.gaps, as far as they are named: from manifests, and the database if there is one. */
export async function proofViews(
  target: ArchiveTarget,
  source: ProofSource,
  isNamed: (name: string) => boolean,
): Promise<string[]> {
  const named = (['coverage', 'gaps'] as const).filter(isNamed)
  if (named.length === 0) return []
  const path = join(source.folder, 'proof.jsonl')
  await pipeline(Readable.from(lines(target, source)), createWriteStream(path, { mode: 0o600 }))
  return [
    `create view recorder_proof as
      select * replace (category::market.category as category) from read_json('${path.replaceAll("'", "''")}',
        format = 'newline_delimited', columns = {kind: 'varchar', category: 'varchar', symbol: 'varchar', stream: 'varchar',
        type: 'varchar', interval: 'varchar', from_time: 'timestamptz', to_time: 'timestamptz', reason: 'varchar',
        state: 'varchar', said_at: 'varchar'})`,
    ...named.map((name) => `create view market.${name} as ${relations[name]}`),
  ]
}

async function* lines(target: ArchiveTarget, { database, isAsked, signal }: ProofSource): AsyncIterable<string> {
  for (const [table, days] of await listDays(target)) {
    if (!marketTables.some((name) => name === table) || archivedTable(table).stream === null) continue
    for (const [day, versions] of days) {
      if (!isAsked(day)) continue
      signal?.throwIfAborted()
      const { proof, writtenAt } = await readManifest(target, table, day, versions.at(-1) ?? 0)
      for (const { coverage, gaps, stream, category, symbol, ...candles } of proof) {
        const key = { category, symbol, stream, type: candles.type || null, interval: candles.interval || null }
        for (const [from, to] of coverage) yield line({ kind: 'coverage', ...key, from_time: from, to_time: to })
        for (const { from, to, reason, state } of gaps) {
          yield line({ kind: 'gaps', ...key, from_time: from, to_time: to, reason, state, said_at: writtenAt })
        }
      }
    }
  }
  if (database === undefined) return
  const columns = ['category', 'symbol', 'stream', 'type', 'interval', 'from_time', 'to_time']
  const read = async (snapshot: Snapshot) => ({
    coverage: await snapshot.query(`select ${columns.join(', ')} from market.coverage`),
    gaps: await snapshot.query(`select ${columns.join(', ')}, reason, state from market.gaps`),
  })
  const known = await withSnapshot(database, read, { signal })
  for (const [kind, rows] of Object.entries(known)) {
    for (const row of rows) {
      const named = [...columns, 'reason', 'state'].map((name, i): [string, string | null] => [name, row[i] ?? null])
      yield line({ kind, ...(Object.fromEntries(named) as Record<string, string | null>), said_at: fromDatabase })
    }
  }
}

function line(value: Readonly<Record<string, string | null>>): string {
  return `${JSON.stringify(value)}\n`
}
