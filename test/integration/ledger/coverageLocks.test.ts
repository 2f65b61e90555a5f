import { afterAll, beforeAll, test } from 'vitest'
import { callFunction } from '../../../src/db/database.js'
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
          const symbols = some().map((letter) => `${letter}${round}`)
          const categories = symbols.map(() => 'SPOT')
          await callFunction(db, 'recorder.lock_fills', categories, symbols)
          await callFunction(
            db,
            'recorder.cover_fills',
            categories,
            symbols,
            symbols.map(() => '{}'),
          )
        }
      }),
    )
  }
})
