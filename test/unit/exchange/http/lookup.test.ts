import type { LookupAddress } from 'node:dns'
import { expect, test } from 'vitest'
import { createLookup } from '../../../../src/exchange/http/lookup.js'
import { createFakeClock } from '../../../support/fakeClock.js'

const address = { address: '192.0.2.1', family: 4 }

/** A resolver that responds when the test says so. */
function setUp(family?: 4 | 6) {
  const clock = createFakeClock()
  const waiting: { resolve: (found: LookupAddress[]) => void; reject: (error: Error) => void }[] = []
  const resolve = () => new Promise<LookupAddress[]>((done, reject) => void waiting.push({ resolve: done, reject }))
  const { lookup, prefer } = createLookup(clock, { resolve, ...(family && { family }) })
  const find = (all = true) =>
    new Promise<unknown>((resolve, reject) => {
      lookup('service.example', { all }, (error, found) => (error === null ? resolve(found) : reject(error)))
    })
  return { clock, waiting, find, prefer }
}

test('all that wait for one host share a look-up, and use its addresses for a while', async () => {
  const { clock, waiting, find } = setUp()
  const both = [find(), find(false)]
  expect(waiting).toHaveLength(1)
  waiting[0]?.resolve([address])
  expect(await Promise.all(both)).toEqual([[address], '192.0.2.1'])
  await clock.advance(29_000)
  expect(await find()).toEqual([address])
  expect(waiting).toHaveLength(1)
  await clock.advance(2_000)
  void find()
  expect(waiting).toHaveLength(2)
})

test('a silent resolver is waited for only so long, and asked once for however many', async () => {
  const { clock, waiting, find } = setUp()
  for (let i = 0; i < 50; i++) {
    const failed = expect(find()).rejects.toMatchObject({ code: 'EAI_AGAIN', hostname: 'service.example' })
    await clock.advance(5_000)
    await failed
  }
  expect(waiting).toHaveLength(1)
})

test('the last addresses are used while the resolver is silent or does not know at the moment', async () => {
  const { clock, waiting, find } = setUp()
  const first = find()
  waiting[0]?.resolve([address])
  await first
  await clock.advance(3_600_000)
  const second = find()
  await clock.advance(5_000)
  expect(await second).toEqual([address])
  const third = find()
  expect(waiting).toHaveLength(2)
  waiting[1]?.reject(Object.assign(new Error('no'), { code: 'EAI_AGAIN' }))
  expect(await third).toEqual([address])
  const fourth = find()
  waiting[2]?.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' }))
  await expect(fourth).rejects.toMatchObject({ code: 'ENOTFOUND' })
})

const other = { address: '2001:db8::1', family: 6 }

test('addresses of the family that could be reached come first', async () => {
  const { waiting, find, prefer } = setUp()
  const first = find()
  waiting[0]?.resolve([other, address])
  expect(await first).toEqual([other, address])
  prefer(4)
  expect(await find()).toEqual([address, other])
  expect(await find(false)).toBe('192.0.2.1')
  prefer(6)
  expect(await find()).toEqual([other, address])
})

test('only addresses of the family of the local address are used', async () => {
  const { waiting, find } = setUp(4)
  const first = find()
  waiting[0]?.resolve([other, address])
  expect(await first).toEqual([address])
  const none = setUp(6)
  const second = none.find()
  none.waiting[0]?.resolve([address])
  await expect(second).rejects.toThrow('service.example has no IPv6 address, and exchange.localAddress is one')
})
