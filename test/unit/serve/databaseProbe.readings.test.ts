import { expect, test } from 'vitest'
import { readNowAndThen } from '../../../src/serve/databaseProbe.js'
import { createFakeClock } from '../../support/fakeClock.js'

/** Something to read, of which the test says when and what it responds. */
function somethingToRead() {
  const clock = createFakeClock()
  const pending: { resolve: (value: string) => void; reject: (error: Error) => void }[] = []
  let reads = 0
  const read = readNowAndThen(clock, 2_000, 'nothing', () => {
    reads++
    return new Promise<string>((resolve, reject) => pending.push({ resolve, reject }))
  })
  const next = () => pending.shift() ?? expect.fail('nobody reads')
  return { clock, read, next, reads: () => reads }
}

test('is read once for all callers, and again after the interval', async () => {
  const { clock, read, next, reads } = somethingToRead()
  const both = [read(), read()]
  next().resolve('first')
  expect(await Promise.all(both)).toEqual(['first', 'first'])
  await clock.advance(1_999)
  expect([await read(), reads()]).toEqual(['first', 1])
  await clock.advance(1)
  const again = read()
  next().resolve('second')
  expect([await again, reads()]).toEqual(['second', 2])
})

test('keeps what was read before when reading fails', async () => {
  const { clock, read, next, reads } = somethingToRead()
  const first = read()
  next().resolve('first')
  await first
  await clock.advance(2_000)
  const failing = read()
  next().reject(new Error('away'))
  expect([await failing, await read(), reads()]).toEqual(['first', 'first', 2])
})

test('is waited for briefly, and read less often when it takes long', async () => {
  const { clock, read, next, reads } = somethingToRead()
  const first = read()
  await clock.advance(500)
  expect(await first).toBe('nothing')
  const second = read()
  await clock.advance(500)
  expect([await second, reads()]).toEqual(['nothing', 1])
  next().resolve('late')
  await clock.advance(0)
  expect([await read(), reads()]).toEqual(['late', 1])
  await clock.advance(19_999)
  expect([await read(), reads()]).toEqual(['late', 1])
  await clock.advance(1)
  void read()
  expect(reads()).toBe(2)
})
