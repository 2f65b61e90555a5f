import { compare, hashSync } from 'bcryptjs'
import { beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/runtime/clock.js'
import { Passwords } from '../../../src/serve/protection.js'

const alice = { username: 'alice', password: 'right' }
const users = new Map([
  ['alice', hashSync('right', 4)],
  ['bob', hashSync('other', 4)],
])
// Comparisons are bcrypt's own; they wait for the gate, and are counted.
let compared = 0
let running = 0
let maxAtOnce = 0
let open: () => void
let gate: Promise<void>
let passwords: Passwords
beforeEach(() => {
  compared = 0
  running = 0
  maxAtOnce = 0
  gate = Promise.resolve()
  const counted = async (password: string, hash: string) => {
    compared += 1
    running += 1
    maxAtOnce = Math.max(maxAtOnce, running)
    await gate
    const matches = await compare(password, hash)
    running -= 1
    return matches
  }
  passwords = new Passwords(counted, { ...systemClock, sleep: () => Promise.resolve() })
})

test('the right password is, another one, that of somebody else and any of nobody are not', async () => {
  const verdictOn = (username: string, password: string) => passwords.check(users, { username, password }, '1')
  expect(await verdictOn('alice', 'right')).toBe('right')
  expect(await verdictOn('alice', 'other')).toBe('wrong')
  expect(await verdictOn('alice', '')).toBe('wrong')
  expect(await verdictOn('bob', 'right')).toBe('wrong')
  expect(await verdictOn('bob', 'other')).toBe('right')
  expect(await verdictOn('mallory', 'right')).toBe('wrong')
  // Names are told apart by nothing, not by time either.
  expect(compared).toBe(6)
})

test('what was right is not worked out again, until its hash is another one or the user has gone', async () => {
  for (let i = 0; i < 50; i += 1) expect(await passwords.check(users, alice, '1')).toBe('right')
  expect(compared).toBe(1)
  const changed = new Map([...users, ['alice', hashSync('new', 4)]])
  expect(await passwords.check(changed, alice, '1')).toBe('wrong')
  expect(await passwords.check(new Map([...users].slice(1)), alice, '1')).toBe('wrong')
  expect(await passwords.check(users, alice, '1')).toBe('right')
  expect(compared).toBe(3)
})

describe('many at once', () => {
  beforeEach(() => {
    gate = new Promise((resolve) => {
      open = resolve
    })
  })

  test('the same credentials are one question', async () => {
    const all = Array.from({ length: 100 }, () => passwords.check(users, alice, '1'))
    open()
    expect(new Set(await Promise.all(all))).toEqual(new Set(['right']))
    expect(compared).toBe(1)
  })

  test('are checked one after the other; guesses at one address leave room for another, and beyond a few all are put off', async () => {
    const guess = (address: string, i: number) =>
      passwords.check(users, { username: 'alice', password: `guess ${address} ${i}` }, address)
    const guesses = Array.from({ length: 200 }, (_, i) => guess('1', i))
    const other = passwords.check(users, alice, '2')
    const more = Array.from({ length: 200 }, (_, i) => guess(`from ${i}`, i))
    open()
    expect((await Promise.all(guesses)).filter((verdict) => verdict === 'wrong')).toHaveLength(2)
    expect(await other).toBe('right')
    expect((await Promise.all(more)).filter((verdict) => verdict === 'busy')).toHaveLength(195)
    expect({ compared, maxAtOnce }).toEqual({ compared: 8, maxAtOnce: 1 })
    // The places are free again.
    expect(await guess('1', 1_000)).toBe('wrong')
  })
})
