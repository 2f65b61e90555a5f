import { beforeEach, describe, expect, test } from 'vitest'
import { Circuit, type CircuitOutcome, outcomeFor } from '../../../../src/exchange/limits/circuit.js'
import type { Departure } from '../../../../src/exchange/limits/penalty.js'

let nowMs: number
let circuit: Circuit

beforeEach(() => {
  nowMs = 1_000_000
  circuit = new Circuit()
})

function depart(): Departure {
  const departure = { operation: 'fills', atMs: nowMs, number: 0, overallNumber: 0 } as const
  circuit.depart(departure)
  return departure
}

const settle = (departure: Departure, outcome: CircuitOutcome) => circuit.settle(departure, outcome, nowMs)

function fail(times: number, everyMs = 300): void {
  for (let i = 0; i < times; i++) {
    nowMs += everyMs
    settle(depart(), 'fails')
  }
}

/** Advances to the end of the pause. Returns how long it was. */
function waitForPause(): number {
  const pauseMs = circuit.readyAtMs() - nowMs
  nowMs += pauseMs
  return pauseMs
}

describe('the circuit of an operation', () => {
  test('opens after ten failures in a row', () => {
    fail(9)
    expect(circuit.readyAtMs()).toBe(-Infinity)
    fail(1)
    expect(circuit.isOpen).toBe(true)
    expect(circuit.readyAtMs()).toBe(nowMs + 1_000)
  })

  test('stays closed while some requests succeed, and in a moment of trouble', () => {
    for (let round = 0; round < 20; round++) {
      fail(8)
      settle(depart(), 'works')
    }
    fail(15, 10)
    expect(circuit.readyAtMs()).toBe(-Infinity)
  })

  test('lets one at a time try while it is open, less and less often, and all when one succeeds', () => {
    fail(10)
    const pauses: number[] = []
    for (let i = 0; i < 5; i++) {
      pauses.push(waitForPause())
      const probe = depart()
      expect(circuit.readyAtMs()).toBe(Infinity)
      nowMs += 100
      settle(probe, 'fails')
    }
    expect(pauses).toEqual([1_000, 2_000, 4_000, 5_000, 5_000])
    waitForPause()
    settle(depart(), 'works')
    expect(circuit.readyAtMs()).toBe(-Infinity)
    fail(10)
    expect(waitForPause()).toBe(1_000)
  })

  test('lets another try at once when a probe told nothing', () => {
    fail(10)
    waitForPause()
    const probe = depart()
    nowMs += 10
    settle(probe, 'unknown')
    expect(circuit.readyAtMs()).toBeLessThanOrEqual(nowMs)
    expect(circuit.isOpen).toBe(true)
  })

  test('pauses no longer for requests that departed before it opened, and closes when one of them succeeds', () => {
    const [early, earlier] = [depart(), depart()]
    fail(10)
    const readyAtMs = circuit.readyAtMs()
    nowMs += 500
    settle(early, 'fails')
    expect(circuit.readyAtMs()).toBe(readyAtMs)
    settle(earlier, 'works')
    expect(circuit.readyAtMs()).toBe(-Infinity)
  })

  test('forgets a probe when another request closes it: that probe blocks no later one, whenever it ends', () => {
    const early = depart()
    fail(10)
    waitForPause()
    const probe = depart()
    settle(early, 'works')
    expect(circuit.readyAtMs()).toBe(-Infinity)
    fail(10)
    expect(waitForPause()).toBe(1_000)
    const next = depart()
    settle(probe, 'fails')
    expect(circuit.readyAtMs()).toBe(Infinity)
    settle(next, 'works')
    expect(circuit.readyAtMs()).toBe(-Infinity)
  })
})

test('a page of a proxy and a retired version count against the operation, what concerns one target does not', () => {
  for (const kind of ['proxy-page', 'retired-version', 'unavailable'] as const) expect(outcomeFor(kind)).toBe('fails')
  for (const kind of ['unsupported-interval', 'unknown-category', 'unknown-symbol'] as const) {
    expect(outcomeFor(kind)).toBe('works')
  }
  expect(outcomeFor('rate-limited')).toBe('unknown')
})
