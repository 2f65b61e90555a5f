import { expect, test } from 'vitest'
import { nextTurn } from '../../../src/runtime/turns.js'
import { countTurns } from '../../support/turns.js'

test('callers that ask at once go on in turns of the event loop of their own', async () => {
  const counted = countTurns()
  const turns: number[] = []
  await Promise.all(Array.from({ length: 20 }, () => nextTurn().then(() => turns.push(counted.turn))))
  counted.stop()
  expect(new Set(turns).size).toBe(20)
})
