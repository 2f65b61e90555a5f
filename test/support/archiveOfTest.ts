import { afterEach, beforeEach } from 'vitest'
import { temporaryArchive } from './archives.js'
import { createTestDatabase, type TestDatabase } from './database.js'

interface Own {
  created: TestDatabase
  archive: Awaited<ReturnType<typeof temporaryArchive>>
}

/** Gives each test of a file a database and an archive of its own. Both are there while a test runs. */
export function archiveOfTest(): Readonly<Own> {
  const own = {} as Own
  beforeEach(async () => {
    own.created = await createTestDatabase()
    own.archive = await temporaryArchive()
  })
  afterEach(async () => {
    await own.archive.drop()
    await own.created.drop()
  })
  return own
}
