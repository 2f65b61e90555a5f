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
