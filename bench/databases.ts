import pg from 'pg'
import { openDatabase, type RecorderDatabase } from '../src/store/db/database.js'

/** The server that `--url` or TEST_DATABASE_URL names; throws without either. */
export function communityServer(given: string | undefined): string {
  const url = given ?? process.env['TEST_DATABASE_URL']
  if (url === undefined || url === '')
    throw new Error(
      'give --url (or TEST_DATABASE_URL): a TimescaleDB Community server on which databases can be created',
    )
  return url
}

/** A new and empty database on a server, for whom `serverUrl` names any other of its databases. */
export async function createDatabase(
  serverUrl: string,
  name: string,
  options: { readonly poolSize?: number } = {},
): Promise<{ readonly url: string; readonly database: RecorderDatabase }> {
  await onServer(serverUrl, `create database ${name}`)
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return { url: url.href, database: openDatabase({ url: url.href, ...options }) }
}

export async function dropDatabase(serverUrl: string, name: string): Promise<void> {
  await onServer(serverUrl, `drop database ${name} with (force)`)
}

async function onServer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
