import pg from 'pg'
import { resolveConfig, storageOf } from '../../src/config/resolve.js'
import type { StorageSettings } from '../../src/server/timescale/reconcile.js'

/** How the tables are kept where the server has TimescaleDB. */
export const testStorage: StorageSettings = storageOf(resolveConfig({}))

/** Returns the address of another database of the same server. */
export function databaseUrl(serverUrl: string, name: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

/** Runs a statement that cannot be in a transaction, on a connection of its own. */
export async function asAdmin(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

/**
 * Ends the sessions of a database, and lets nobody open others: a database with sessions cannot be cloned, and
 * TimescaleDB's background workers open some. The server's own autovacuum, which has no user, ends by itself.
 */
export async function closeDatabase(adminUrl: string, name: string): Promise<void> {
  await asAdmin(adminUrl, `alter database ${name} allow_connections false`)
  await asAdmin(
    adminUrl,
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}' and usesysid is not null`,
  )
}

/** The server's own autovacuum may be at work in it, whose process nobody but a superuser may end. */
export async function dropDatabase(adminUrl: string, name: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await asAdmin(adminUrl, `drop database if exists ${name} with (force)`)
    } catch (error) {
      if ((error as { readonly code?: string }).code !== '42501' || attempt >= 100) throw error
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }
}
