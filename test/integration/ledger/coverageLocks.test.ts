import { afterAll, beforeAll, expect, test } from 'vitest'
import { lockCoverage } from '../../../src/ledger/coverage.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created.drop())

test('transactions that lock series of which some are new never wait for each other', async () => {
  const { db } = created.database
  const letters = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H']
  for (let round = 0; round < 60; round++) {
    const some = () => letters.filter(() => Math.random() < 0.5)
    await Promise.all(
      Array.from({ length: 5 }, async () => {
        for (let turn = 0; turn < 3; turn++) {
          const wanted = some().map((letter) => ({
            series: {
              stream: 'fills' as const,
              category: 'SPOT' as const,
              symbol: `${letter}${round}`,
              type: null,
              interval: null,
            },
            since: null,
          }))
          const proven = await db.transaction().execute((trx) => lockCoverage(trx, wanted))
          expect(proven).toHaveLength(wanted.length)
        }
      }),
    )
  }
})
