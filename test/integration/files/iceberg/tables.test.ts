import { afterAll, beforeAll, expect, test } from 'vitest'
import { runArchive } from '../../../../src/files/archive/run.js'
import { tablePublisher } from '../../../../src/files/iceberg/publish.js'
import { archivedTableNames } from '../../../../src/market/archivedTable.js'
import { temporaryArchive } from '../../../support/archives.js'
import { loadCookbookMarket } from '../../../support/cookbookMarket.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'

const dayMs = 86_400_000
const from = Date.UTC(2026, 2, 2)

let source: TestDatabase
let archive: Awaited<ReturnType<typeof temporaryArchive>>
beforeAll(async () => {
  source = await createTestDatabase()
  await loadCookbookMarket(source.database.db)
  archive = await temporaryArchive()
})
afterAll(async () => {
  await archive.drop()
  await source.drop()
})

test('publishes', async () => {
  const { db } = source.database
  const now = () => from + 4 * dayMs
  const result = await runArchive(
    source.database,
    archive.target,
    { tables: archivedTableNames, afterHours: 1 },
    {
      now,
      recorder: '0.0.0-test',
      openTables: (context) => tablePublisher({ ...context, db, target: archive.target, now, snapshotDays: 30 }),
    },
  )
  expect(result.problems).toEqual([])
  console.log(archive.folder, source.url ?? '')
  await new Promise((r) => setTimeout(r, Number(process.env['HOLD'] ?? 0)))
})
