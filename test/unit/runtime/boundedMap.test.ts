import { expect, test } from 'vitest'
import { Refusals } from '../../../src/exchange/limits/refusals.js'
import { bounds } from '../../../src/market/bounds.js'
import { BoundedMap } from '../../../src/runtime/boundedMap.js'

test('beyond its bound it forgets what was set longest ago', () => {
  const map = new BoundedMap<number>()
  const keys = Array.from({ length: bounds.knownInstruments }, (_, place) => `S${place}`)
  for (const [place, key] of keys.entries()) map.set(key, place)
  map.set('S0', -1).set('new', 0)
  expect(map.size).toBe(bounds.knownInstruments)
  expect([map.get('S0'), map.get('S1'), map.get('S2'), map.get('new')]).toEqual([-1, undefined, 2, 0])
})

test('of instruments that a service names once and never again, only the newest are known as admitted or refused', () => {
  const refusals = new Refusals()
  for (let place = 0; place < 2 * bounds.knownInstruments; place++) {
    if (place % 2 === 0) refusals.responded('orderbook', `S${place}`)
    else refusals.refused('orderbook', `S${place}`)
  }
  expect([refusals.isAdmitted('S0'), refusals.isRefused('S1')]).toEqual([true, true])
  refusals.responded('orderbook', 'one more')
  refusals.refused('orderbook', 'another')
  expect([refusals.isAdmitted('S0'), refusals.isRefused('S1')]).toEqual([false, false])
  expect([refusals.isAdmitted('S2'), refusals.isRefused('S3')]).toEqual([true, true])
})
