import pg from 'pg'
import type { TimescaleSettings } from '../../src/store/timescale.js'

/** Chunks of the hypertables where the server has TimescaleDB. */
export const testChunks: TimescaleSettings = {
  tickers: { chunkHours: 24 },
  orderBooks: { chunkHours: 6 },
  rpiOrderBooks: { chunkHours: 6 },
  fills: { chunkHours: 24 },
  candles: { chunkHours: 168 },
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
