import { type Kysely, type RawBuilder, sql } from 'kysely'
import { duration } from '../../db/columns.js'
import type { Database } from '../../db/schema.js'
import { secondMs, type ServiceMs } from '../../market/values.js'
import { type ServerKind } from './server.js'

/** One step from the current features to the configured ones. */
export interface Change {
  /** Text that continues "will …". */
  readonly text: string
  apply(db: Kysely<Database>): Promise<void>
}

/** The time-series features that a database has. */
export interface CurrentState {
  /** Hypertables by their name in schema `market`. */
  readonly hypertables: ReadonlyMap<string, Hypertable>
  /** Names of the continuous aggregates in schema `recorder`. */
  readonly rollups: ReadonlySet<string>
  /** Names of the views in schema `market` that read a continuous aggregate. */
  readonly rollupViews: ReadonlySet<string>
  /** Policies by kind and name of the relation, such as `columnstore candles`. */
  readonly policies: ReadonlyMap<string, Policy>
  /** Time before which rollups outlive their candles; null if no candle was removed for its age. */
  readonly rollupsFinalBefore: ServiceMs | null
}

interface Hypertable {
  readonly chunkHours: number
  /** Columnstore settings. Absent while the columnstore is off. */
  readonly columnstore?: { readonly segmentBy: string; readonly orderBy: string }
}

export interface Policy {
  readonly everyMs: number
  /** Age in hours of the rows that the policy converts, or of the oldest ones that it refreshes. */
  readonly afterHours: number | null
  /** True if the policy begins at its own place, see `firstRun`. */
  readonly hasPlace: boolean
  /** Buckets in one transaction of a refresh. Null leaves the number to the server. */
  readonly bucketsPerBatch?: number | null
}

type PolicyKind = 'columnstore' | 'refresh'

export const emptyState: CurrentState = {
  hypertables: new Map(),
  rollups: new Set(),
  rollupViews: new Set(),
  policies: new Map(),
  rollupsFinalBefore: null,
}

export function policyKey(kind: PolicyKind, name: string): string {
  return `${kind} ${name}`
}

/**
 * Builds the time at which a policy runs first. Runs keep their distance from it. Policies that are added together
 * would otherwise all run at one moment for good, and the server has few workers. Refreshes come at the beginning of
 * five minutes, the finest first, and each table has its own five minutes of an hour after them.
 */
export function firstRun(kind: PolicyKind, index: number, everyMs: number): RawBuilder<Date> {
  const every = duration(everyMs)
  const offset = duration((kind === 'refresh' ? index * 45 : 240 + index * 300) * secondMs)
  return sql`date_bin(${every}, now() - ${offset}, timestamptz 'epoch') + ${every} + ${offset}`
}

export async function readCurrentState(db: Kysely<Database>, kind: ServerKind): Promise<CurrentState> {
  if (kind === 'postgresql') return emptyState
  const { rows: chunks } = await sql<{ name: string; hours: number }>`
    select hypertable_name as name, (extract(epoch from time_interval) / 3600)::float8 as hours
    from timescaledb_information.dimensions
    where hypertable_schema = 'market' and dimension_number = 1`.execute(db)
  if (kind === 'timescale-apache') {
    return { ...emptyState, hypertables: new Map(chunks.map(({ name, hours }) => [name, { chunkHours: hours }])) }
  }
  const columnstores = await readColumnstores(db)
  const hypertables = new Map(
    chunks.map(({ name, hours }) => {
      const columnstore = columnstores.get(name)
      return [name, { chunkHours: hours, ...(columnstore && { columnstore }) }]
    }),
  )
  const { rows: rollups } = await sql<{ name: string; isRead: boolean }>`
    select a.view_name as name, exists (
      select from pg_depend d
      join pg_rewrite r on r.oid = d.objid and d.classid = 'pg_rewrite'::regclass
      where d.refobjid = format('%I.%I', a.view_schema, a.view_name)::regclass
        and r.ev_class = to_regclass(format('market.%I', a.view_name))
    ) as "isRead"
    from timescaledb_information.continuous_aggregates a
    where a.view_schema = 'recorder'`.execute(db)
  return {
    hypertables,
    rollups: new Set(rollups.map(({ name }) => name)),
    rollupViews: new Set(rollups.filter(({ isRead }) => isRead).map(({ name }) => name)),
    policies: await readPolicies(db),
    rollupsFinalBefore: rollups.length === 0 ? null : await finalBefore(db),
  }
}

async function readColumnstores(db: Kysely<Database>): Promise<Map<string, Required<Hypertable>['columnstore']>> {
  const { rows } = await sql<{ name: string; segmentBy: string; orderBy: string }>`
    select c.relname as name, s.segmentby as "segmentBy", s.orderby as "orderBy"
    from timescaledb_information.hypertable_columnstore_settings s
    join pg_class c on c.oid = s.hypertable
    where c.relnamespace = 'market'::regnamespace and s.segmentby is not null`.execute(db)
  return new Map(
    rows.map(({ name, segmentBy, orderBy }) => [
      name,
      { segmentBy: segmentBy.replaceAll(' ', ''), orderBy: orderBy.replaceAll(' ', '') },
    ]),
  )
}

async function readPolicies(db: Kysely<Database>): Promise<Map<string, Policy>> {
  const { rows } = await sql<Policy & { kind: PolicyKind; name: string }>`
    select k.kind, j.hypertable_name as name,
      (extract(epoch from j.schedule_interval) * 1000)::float8 as "everyMs",
      (extract(epoch from coalesce(
        j.config ->> 'compress_after', j.config ->> 'start_offset'
      )::interval) / 3600)::float8 as "afterHours",
      j.initial_start is not null as "hasPlace", (j.config ->> 'buckets_per_batch')::int as "bucketsPerBatch"
    from timescaledb_information.jobs j
    join (values
      ('policy_compression', 'columnstore'), ('policy_refresh_continuous_aggregate', 'refresh')
    ) as k (proc_name, kind) on k.proc_name = j.proc_name
    where j.hypertable_schema in ('market', 'recorder')`.execute(db)
  return new Map(rows.map(({ kind, name, ...policy }) => [policyKey(kind, name), policy]))
}

/** Reads the time before which rollups outlive their candles; null if no candle was removed for its age. */
export async function finalBefore(db: Kysely<Database>): Promise<ServiceMs | null> {
  const row = await db.selectFrom('recorder.final_rollups').select('before').executeTakeFirst()
  return row?.before ?? null
}
