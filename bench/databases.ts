import { openDatabase, type RecorderDatabase } from '../src/db/database.js'
import { asAdmin, databaseUrl } from '../test/support/databaseServer.js'

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
  await asAdmin(serverUrl, `create database ${name}`)
  const url = databaseUrl(serverUrl, name)
  return { url, database: openDatabase({ url, ...options }) }
}

export async function dropDatabase(serverUrl: string, name: string): Promise<void> {
  await asAdmin(serverUrl, `drop database ${name} with (force)`)
}
