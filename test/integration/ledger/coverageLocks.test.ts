import { afterAll, beforeAll, test } from 'vitest'
import { callFunction } from '../../../src/db/database.js'
import { createRandom } from '../../../src/simulator/world/hash.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
})
afterAll(() => created.drop())

test('transactions that lock series of which some are new never wait for each other', async () => {
  const { db } = created.database
  const letters = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H']
  const random = createRandom(1)
  for (let round = 0; round < 60; round++) {
    const some = () => letters.filter(() => random() < 0.5).map((letter) => `${letter}${round}`)
    const writers = Array.from({ length: 5 }, () => [some(), some(), some()])
    await Promise.all(
      writers.map(async (turns) => {
        for (const symbols of turns) {
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
