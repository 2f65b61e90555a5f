import pg from 'pg'
import { connectionString } from './db/database.js'
import { lockNames } from './db/locks/names.js'

/** The connections of the queue's library, as it takes them. */
export interface QueueConnection {
  executeSql(text: string, values?: unknown[]): Promise<pg.QueryResult>
  close(): Promise<void>
}

const advisoryLock = /SELECT pg_advisory_xact_lock\(\s*\('x'.*?\)::bit\(64\)::bigint\s*\)/s
const rowLock = `SELECT FROM recorder.lock WHERE name = '${lockNames.queue}' AND place = '' FOR UPDATE`

/** The library's statement, with a lock that not everybody may take in place of its own. Throws when it finds another. */
export function withRowLock(text: string): string {
  const replaced = text.replace(advisoryLock, rowLock)
  if (/pg_\w*advisory/.test(replaced)) throw new Error('the queue takes an advisory lock, which anybody could hold')
  return replaced
}

export function openQueueConnection(url: string, onError: (error: Error) => void): QueueConnection {
  const pool = new pg.Pool({
    connectionString: connectionString(url),
    application_name: 'market-recorder queue',
    max: 2,
    keepAlive: true,
  })
  pool.on('error', onError)
  // Without a handler a connection that breaks while it is checked out ends the process; its query rejects with the same error.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return {
    async executeSql(text, values) {
      const client = await pool.connect()
      let failure: Error | undefined
      try {
        return await client.query(withRowLock(text), values)
      } catch (error) {
        failure = error as Error
        throw error
      } finally {
        // Some statements begin a transaction themselves, and one that fails leaves it open: that connection is not used again.
        client.release(failure)
      }
    },
    close: () => pool.end(),
  }
}
