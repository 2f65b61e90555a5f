import pg from 'pg'
import type { StorageSettings } from '../../src/server/timescale/changes.js'

/** How the tables are kept where the server has TimescaleDB. */
export const testStorage: StorageSettings = {
  tickers: { chunkHours: 24, columnstoreAfterHours: 48 },
  order_books: { chunkHours: 6, columnstoreAfterHours: 24 },
  rpi_order_books: { chunkHours: 6, columnstoreAfterHours: 24 },
  fills: { chunkHours: 24, columnstoreAfterHours: 72 },
  candles: { chunkHours: 168, columnstoreAfterHours: 336 },
  funding_rates: { chunkHours: 720, columnstoreAfterHours: 1440 },
  funding_forecasts: { chunkHours: 168, columnstoreAfterHours: 192 },
  liquidations: { chunkHours: 720, columnstoreAfterHours: 168 },
  rejected_row: { retentionDays: 30 },
}

/** The same server, another database. */
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
