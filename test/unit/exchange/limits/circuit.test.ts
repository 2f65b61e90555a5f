import { beforeEach, describe, expect, test } from 'vitest'
import { Circuit, outcomeFor, type CircuitPass } from '../../../../src/exchange/limits/circuit.js'
import { createFakeClock, type FakeClock } from '../../../support/fakeClock.js'

const never = new AbortController().signal
let clock: FakeClock
let circuit: Circuit

beforeEach(() => {
  clock = createFakeClock()
  circuit = new Circuit(clock)
})

async function fail(times: number, everyMs = 300): Promise<void> {
  for (let i = 0; i < times; i++) {
    circuit.leave(await circuit.enter(never), 'fails')
    await clock.advance(everyMs)
  }
}

/** Resolves to true if a request has to wait. */
async function isOpen(): Promise<boolean> {
  const stop = new AbortController()
  const entering = circuit.enter(stop.signal).then(
    (pass) => circuit.leave(pass, 'unknown'),
    () => 'waits',
  )
  stop.abort()
  return (await entering) === 'waits'
}

describe('the circuit of an operation', () => {
  test('opens after ten failures in a row', async () => {
    await fail(9)
    expect(await isOpen()).toBe(false)
    await fail(1)
    expect(await isOpen()).toBe(true)
  })

  test('stays closed while some requests succeed, and in a moment of trouble', async () => {
    for (let round = 0; round < 20; round++) {
      await fail(8)
      circuit.leave(await circuit.enter(never), 'works')
    }
    expect(await isOpen()).toBe(false)
    await fail(15, 10)
    expect(await isOpen()).toBe(false)
  })

  test('lets one at a time try while it is open, less and less often, and all when one succeeds', async () => {
    await fail(10)
    let entered = 0
    let last: CircuitPass = { isProbe: false }
    const all = Array.from({ length: 5 }, async () => {
      last = await circuit.enter(never)
      entered++
    })
    await clock.advance(500)
    expect(entered).toBe(0)
    await clock.advance(600)
    expect(entered).toBe(1)
    circuit.leave(last, 'fails')
    await clock.advance(1_900)
    expect(entered).toBe(1)
    await clock.advance(200)
    expect(entered).toBe(2)
    circuit.leave(last, 'works')
    await Promise.all(all)
    expect(entered).toBe(5)
    expect(await isOpen()).toBe(false)
  })

  test('a probe that was given up makes room for another', async () => {
    await fail(10)
    await clock.advance(1_100)
    const probe = await circuit.enter(never)
    let entered = false
    const next = circuit.enter(never).then(() => (entered = true))
    await clock.advance(10)
    expect(entered).toBe(false)
    circuit.leave(probe, 'unknown')
    await next
    expect(entered).toBe(true)
  })

  test('who waits can be called off', async () => {
    await fail(10)
    const stop = new AbortController()
    const waiting = circuit.enter(stop.signal)
    stop.abort(new Error('stopped'))
    await expect(waiting).rejects.toThrow('stopped')
  })

  test('who waits can be called off in the moment in which it is woken', async () => {
    await fail(10)
    await clock.advance(1_100)
    const probe = await circuit.enter(never)
    const stop = new AbortController()
    let reason: unknown = 'none'
    circuit.enter(stop.signal).catch((error: unknown) => (reason = error))
    await clock.advance(1)
    circuit.leave(probe, 'fails')
    stop.abort(new Error('stopped'))
    await clock.advance(1)
    expect(reason).toMatchObject({ message: 'stopped' })
  })
})

test('a page of a proxy and a retired version count against the operation, what concerns one target does not', () => {
  for (const kind of ['proxy-page', 'retired-version', 'unavailable'] as const) expect(outcomeFor(kind)).toBe('fails')
  for (const kind of ['unsupported-interval', 'unknown-category', 'unknown-symbol'] as const) {
    expect(outcomeFor(kind)).toBe('works')
  }
  expect(outcomeFor('rate-limited')).toBe('unknown')
})
