import { randomBytes } from 'node:crypto'
import { inject } from 'vitest'
import { openDatabase, type RecorderDatabase } from '../../src/db/database.js'
import { asAdmin, databaseUrl, dropDatabase } from './databaseServer.js'

export interface TestDatabase {
  readonly url: string
  readonly database: RecorderDatabase
  /** Closes and removes it. */
  drop(): Promise<void>
}

/** A database of its own for a test file: migrated, empty, and reconciled where the server has TimescaleDB. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const { template, strategy } = inject('testServer')
  return create(`template ${template} ${strategy}`)
}

/** A database without anything in it: the usual template has the extension on some servers, such as that of the Docker image. */
export async function createEmptyDatabase(encoding?: string): Promise<TestDatabase> {
  const encoded = encoding === undefined ? '' : ` encoding '${encoding}' locale_provider libc locale 'C'`
  return create(`template template0${encoded}`)
}

async function create(options: string): Promise<TestDatabase> {
  const { adminUrl } = inject('testServer')
  const name = `recorder_test_${randomBytes(6).toString('hex')}`
  await asAdmin(adminUrl, `create database ${name} ${options}`)
  const url = databaseUrl(adminUrl, name)
  const database = openDatabase({ url, applicationName: name })
  return {
    url,
    database,
    async drop() {
      await database.close()
      await dropDatabase(adminUrl, name)
    },
  }
}
