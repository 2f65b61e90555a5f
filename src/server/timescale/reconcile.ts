import { type Kysely, sql } from 'kysely'
import { duration } from '../../db/columns.js'
import { databaseNow } from '../../db/database.js'
import { lockNames, withFurtherLock, withSessionLock } from '../../db/locks.js'
import type { Database } from '../../db/schema.js'
import { type TimeStream, type TimeTable, timeTables } from '../../market/stream.js'
import { type DatabaseMs, hourMs } from '../../market/values.js'
import { type Change, type CurrentState, firstRun, policyKey, readCurrentState } from './currentState.js'
import { rollupChanges, rollups } from './rollups.js'
import { canCreateExtension, detectServer, type ServerKind, supportedKind } from './server.js'

/** Storage settings of a table that grows with time. */
interface TableSettings {
  /** Time span of one chunk, hours. */
  readonly chunkHours: number
  /** Age at which chunks become columnar, hours. */
  readonly columnstoreAfterHours: number
  /** Age at which rows are removed, days; without it they stay. */
  readonly retentionDays?: number
  /** True when only the archiver removes rows, once they are in the archive. Default false. */
  readonly isArchived?: boolean
}

/** Storage settings of every table, by table name. */
export type StorageSettings = Readonly<Record<TimeStream, TableSettings>>

/**
 * Brings the time-series features of a migrated database in line with the configuration. Returns the changes, one line
 * each. PostgreSQL without TimescaleDB needs none. Several processes may call it at once. Cannot run in a transaction.
 * Throws if TimescaleDB is too old.
 */
export async function reconcile(db: Kysely<Database>, settings: StorageSettings): Promise<string[]> {
  return withSessionLock(db, lockNames.reconcile, async (connection) => {
    // While a table lock waits behind a reader's transaction, recording would wait behind the lock.
    await sql`set lock_timeout = '10s'`.execute(connection)
    try {
      return await applyChanges(connection, settings)
    } finally {
      await sql`reset lock_timeout`.execute(connection)
    }
  })
}

const createExtension = 'create extension timescaledb'

/**
 * Returns the changes that `reconcile` would make, one line each. Changes nothing. One line stands for all features
 * while the extension or a migration is missing. Throws if TimescaleDB is too old.
 */
export async function plannedChanges(
  db: Kysely<Database>,
  settings: StorageSettings,
  { isMigrated }: { readonly isMigrated: boolean },
): Promise<string[]> {
  const server = await detectServer(db)
  const allFeatures = 'set up the features of TimescaleDB'
  if (server.kind === 'postgresql') return (await canCreateExtension(db)) ? [createExtension, allFeatures] : []
  const kind = supportedKind(server)
  if (!isMigrated) return [allFeatures]
  return changesNeeded(kind, await readCurrentState(db, kind), settings, await databaseNow(db)).map(({ text }) => text)
}

async function applyChanges(db: Kysely<Database>, settings: StorageSettings): Promise<string[]> {
  const done: string[] = []
  if ((await detectServer(db)).kind === 'postgresql' && (await canCreateExtension(db))) {
    // Its functions are called in schema public. A schema with the name of the login would otherwise take them.
    await sql`create extension if not exists timescaledb schema public`.execute(db)
    done.push(createExtension)
  }
  const kind = supportedKind(await detectServer(db))
  const applyAll = async (changes: readonly Change[]) => {
    for (const change of changes) {
      await change.apply(db)
      done.push(change.text)
    }
  }
  await applyAll(tableChanges(kind, await readCurrentState(db, kind), settings))
  if (kind !== 'timescale-community') return done
  // Drops of candles bound the schedule and the filling of rollups, so the bound must not change meanwhile.
  await withFurtherLock(db, lockNames.rollups, async () =>
    applyAll(allRollupChanges(await readCurrentState(db, kind), await databaseNow(db))),
  )
  return done
}

/** Interval at which the server looks for chunks to convert. */
const upkeepMs = hourMs

/** Returns the changes that bring a database from its current state to the settings, in the order to apply them. */
export function changesNeeded(
  kind: ServerKind,
  current: CurrentState,
  settings: StorageSettings,
  now: DatabaseMs,
): Change[] {
  const changes = tableChanges(kind, current, settings)
  return kind === 'timescale-community' ? [...changes, ...allRollupChanges(current, now)] : changes
}

function tableChanges(kind: ServerKind, current: CurrentState, settings: StorageSettings): Change[] {
  if (kind === 'postgresql') return []
  const hypertables = timeTables.flatMap((table) => hypertableChanges(table, current, settings[table.name]))
  if (kind === 'timescale-apache') return hypertables
  return [...hypertables, ...timeTables.flatMap((table) => columnstoreChanges(table, current, settings[table.name]))]
}

function allRollupChanges(current: CurrentState, now: DatabaseMs): Change[] {
  return rollups.flatMap((rollup) => rollupChanges(rollup, current, now))
}

function hypertableChanges(
  { name, timeColumn }: TimeTable,
  { hypertables }: CurrentState,
  { chunkHours }: TableSettings,
): Change[] {
  const current = hypertables.get(name)
  if (current?.chunkHours === chunkHours) return []
  if (current === undefined) {
    return [
      {
        text: `make market.${name} a hypertable with chunks of ${hours(chunkHours)}`,
        async apply(db) {
          await db.transaction().execute(async (trx) => {
            // create_hypertable looks for rows with a snapshot older than its lock. It would hide rows committed between.
            await sql`lock table ${sql.table(`market.${name}`)} in access exclusive mode`.execute(trx)
            // Creates no default index: the primary key serves every query of one instrument, and others need none.
            await sql`
              select public.create_hypertable(${relation(name)},
                public.by_range(${timeColumn}, make_interval(hours => ${chunkHours}::int)),
                migrate_data => true, create_default_indexes => false, if_not_exists => true)`.execute(trx)
          })
        },
      },
    ]
  }
  return [
    {
      text: `change new chunks of market.${name} from ${hours(current.chunkHours)} to ${hours(chunkHours)}`,
      async apply(db) {
        await sql`select public.set_chunk_time_interval(${relation(name)}, make_interval(hours => ${chunkHours}::int))`.execute(
          db,
        )
      },
    },
  ]
}

function columnstoreChanges(
  { name, seriesColumns, orderColumns }: TimeTable,
  { hypertables, policies }: CurrentState,
  { columnstoreAfterHours }: TableSettings,
): Change[] {
  const segmentBy = seriesColumns.join(',')
  const orderBy = orderColumns.join(',')
  const current = hypertables.get(name)?.columnstore
  const changes: Change[] = []
  if (current?.segmentBy !== segmentBy || current.orderBy !== orderBy) {
    changes.push({
      text: `set the columnstore of market.${name} to segments by (${segmentBy}) in the order of (${orderBy})`,
      async apply(db) {
        await sql`
          alter table ${sql.table(`market.${name}`)} set (timescaledb.enable_columnstore = true,
            timescaledb.segmentby = ${sql.lit(segmentBy)}, timescaledb.orderby = ${sql.lit(orderBy)})`.execute(db)
      },
    })
  }
  const policy = policies.get(policyKey('columnstore', name))
  if (policy?.afterHours !== columnstoreAfterHours || policy.everyMs !== upkeepMs || !policy.hasPlace) {
    const place = timeTables.findIndex((table) => table.name === name)
    changes.push({
      text: `convert chunks of market.${name} to the columnstore after ${hours(columnstoreAfterHours)}`,
      async apply(db) {
        await sql`call public.remove_columnstore_policy(${relation(name)}, if_exists => true)`.execute(db)
        await sql`
          call public.add_columnstore_policy(${relation(name)},
            after => make_interval(hours => ${columnstoreAfterHours}::int), schedule_interval => ${duration(upkeepMs)},
            initial_start => ${firstRun('columnstore', place, upkeepMs)})
        `.execute(db)
      },
    })
  }
  return changes
}

function relation(name: string) {
  return sql`${`market.${name}`}::regclass`
}

function hours(count: number): string {
  return count % 24 === 0 ? `${count / 24} ${count === 24 ? 'day' : 'days'}` : `${count} hours`
}
