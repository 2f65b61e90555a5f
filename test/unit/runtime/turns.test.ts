import { expect, test } from 'vitest'
import { nextTurn } from '../../../src/runtime/turns.js'

test('callers that ask at once go on in turns of the event loop of their own', async () => {
  let turn = 0
  let isOver = false
  const count = () => {
    turn++
    if (!isOver) setImmediate(count)
  }
  count()
  const turns: number[] = []
  await Promise.all(Array.from({ length: 20 }, () => nextTurn().then(() => turns.push(turn))))
  isOver = true
  expect(new Set(turns).size).toBe(20)
})
