import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase, type RecorderDatabase } from '../src/db/database.js'
import { migrateToLatest } from '../src/db/migrate.js'
import { startEmbeddedPostgres } from '../src/server/embedded/embedded.js'

/** Calls `measure` with an empty database of its own, in which nothing but what it does itself writes: no autovacuum. */
export async function withQuietDatabase<Result>(
  measure: (database: RecorderDatabase) => Promise<Result>,
): Promise<Result> {
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-bench-'))
  const server = await startEmbeddedPostgres({ dataDir: join(folder, 'postgres'), settings: { autovacuum: 'off' } })
  const database = openDatabase({ url: server.url, poolSize: 2 })
  try {
    await migrateToLatest(database)
    return await measure(database)
  } finally {
    await database.close()
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
}
