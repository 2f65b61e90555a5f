import { type Kysely, sql } from 'kysely'
import { lockNames, withSessionLock } from '../../db/locks.js'
import type { Database } from '../../db/schema.js'
import { changesNeeded, type StorageSettings } from './changes.js'
import { emptyState, readCurrentState } from './currentState.js'
import {
  canCreateExtension,
  detectServer,
  requireCommunityVersion,
  type ServerInfo,
  type ServerKind,
  serverWithExtension,
} from './server.js'

interface ReconcileOptions {
  /** True to return changes without making them. */
  readonly dryRun?: boolean
  readonly settings: StorageSettings
}

/**
 * Brings the time-series features of a migrated database in line with the configuration. Returns the changes, one line
 * each. PostgreSQL without TimescaleDB needs none. Several processes may call it at once. Cannot run in a transaction.
 * Throws if TimescaleDB is too old.
 */
export async function reconcile(db: Kysely<Database>, options: ReconcileOptions): Promise<string[]> {
  if (options.dryRun === true) return plannedChanges(db, options.settings)
  return withSessionLock(db, lockNames.reconcile, async (connection) => {
    // While a table lock waits behind a reader's transaction, recording would wait behind the lock.
    await sql`set lock_timeout = '10s'`.execute(connection)
    try {
      return await applyChanges(connection, options.settings)
    } finally {
      await sql`reset lock_timeout`.execute(connection)
    }
  })
}

const createExtension = 'create extension timescaledb'

async function plannedChanges(db: Kysely<Database>, settings: StorageSettings): Promise<string[]> {
  const server = await detectServer(db)
  if (server.kind !== 'postgresql' || !(await canCreateExtension(db))) {
    const kind = checkedKind(server)
    return changesNeeded(kind, await readCurrentState(db, kind), settings).map(({ text }) => text)
  }
  const kind = checkedKind(await serverWithExtension(db))
  return [createExtension, ...changesNeeded(kind, emptyState, settings).map(({ text }) => text)]
}

async function applyChanges(db: Kysely<Database>, settings: StorageSettings): Promise<string[]> {
  const done: string[] = []
  let server = await detectServer(db)
  if (server.kind === 'postgresql' && (await canCreateExtension(db))) {
    await sql`create extension if not exists timescaledb`.execute(db)
    done.push(createExtension)
    server = await detectServer(db)
  }
  const kind = checkedKind(server)
  for (const change of changesNeeded(kind, await readCurrentState(db, kind), settings)) {
    await change.apply(db)
    done.push(change.text)
  }
  return done
}

function checkedKind({ kind, timescaleVersion }: ServerInfo): ServerKind {
  if (kind === 'timescale-community' && timescaleVersion !== undefined) requireCommunityVersion(timescaleVersion)
  return kind
}
