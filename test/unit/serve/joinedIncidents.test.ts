import { expect, test } from 'vitest'
import { joinedIncidents } from '../../../src/serve/joinedIncidents.js'

const refused = 'network: connection refused: 127.0.0.1:1; check the network'

function incident(what: string, message: string, since: number, until: number | null = null) {
  return { what, message, count: 2, since, lastAt: since + 10, until }
}

test('what fails at one time for one cause is one incident, until all of it works again', () => {
  const since = (until: number | null) =>
    joinedIncidents([
      incident('tickers', `tickers SPOT: ${refused}`, 120, until),
      incident('storing', 'slow', 110),
      incident('fills', `fills SPOT BTCUSDT: ${refused}`, 100, 160),
    ])
  const both = { what: 'tickers, fills', message: `tickers SPOT: ${refused}`, count: 4, since: 100 }
  expect(since(null)).toMatchObject([{ ...both, until: null }, { what: 'storing' }])
  expect(since(150)).toMatchObject([{ ...both, until: 160, before: 0 }, { what: 'storing' }])
})

test('one cause at two times is two incidents', () => {
  const later = incident('tickers', `tickers SPOT: ${refused}`, 200)
  expect(joinedIncidents([later, incident('fills', `fills SPOT: ${refused}`, 100, 150)])).toHaveLength(2)
})

test('what fails again and again is one incident, with the newest reason', () => {
  const [joined, ...others] = joinedIncidents([
    incident('tickers', 'a: new', 300, 310),
    incident('tickers', 'a: old', 200, 210),
    incident('tickers', 'a: older', 100, 110),
  ])
  expect(joined).toMatchObject({ message: 'a: new', count: 2, since: 300, until: 310, before: 2, firstSince: 100 })
  expect(others).toEqual([])
})
