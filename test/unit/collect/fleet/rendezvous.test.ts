import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type FleetMember, ownershipOf, Rendezvous } from '../../../../src/collect/fleet/rendezvous.js'

const member = (index: number, weight = 6000): FleetMember => ({ egress: `egress-${index}`, weight })
const equals = (count: number) => Array.from({ length: count }, (_, index) => member(index))
const instrumentAt = (index: number) => ({ category: 'SPOT', symbol: `COIN${index}USDT` }) as const
const keyAt = (index: number) => `SPOT COIN${index}USDT`
const keys = Array.from({ length: 300 }, (_, index) => keyAt(index))

const members = fc
  .array(fc.integer({ min: 600, max: 6000 }), { minLength: 2, maxLength: 12 })
  .map((weights) => weights.map((weight, index) => member(index, weight)))

test('each member gets its share of the weights, within what chance does', () => {
  const some = [member(0, 1000), member(1, 2000), member(2, 3000), member(3, 6000)]
  const rendezvous = new Rendezvous(some)
  const counts = new Map<string | null, number>()
  for (let index = 0; index < 12_000; index++) {
    const owner = rendezvous.ownerOf(keyAt(index))
    counts.set(owner, (counts.get(owner) ?? 0) + 1)
  }
  for (const { egress, weight } of some) {
    const share = weight / 12_000
    const deviation = Math.sqrt(12_000 * share * (1 - share))
    expect(Math.abs((counts.get(egress) ?? 0) - weight)).toBeLessThan(4.5 * deviation)
  }
})

test('every recorder comes to the same, in whatever order it knows the members', () => {
  fc.assert(
    fc.property(members, fc.nat(5000), (some, index) => {
      expect(new Rendezvous(some.toReversed()).ownerOf(keyAt(index))).toBe(new Rendezvous(some).ownerOf(keyAt(index)))
    }),
  )
})

test('only what was of a member that is gone moves, and a member that comes takes from others and moves nothing between them', () => {
  fc.assert(
    fc.property(members, fc.nat(11), (all, which) => {
      const moving = all[which % all.length]?.egress ?? ''
      const [whole, without] = [new Rendezvous(all), new Rendezvous(all.filter(({ egress }) => egress !== moving))]
      for (const key of keys) {
        if (whole.ownerOf(key) === moving) expect(without.ownerOf(key)).not.toBe(moving)
        else expect(without.ownerOf(key)).toBe(whole.ownerOf(key))
      }
    }),
  )
})

test('each list and each instrument belongs to one member', () => {
  const rendezvous = new Rendezvous(equals(5))
  const own = equals(5).map(({ egress }) => ownershipOf(egress, rendezvous))
  expect(own.filter((ownership) => ownership.hasList('tickers', 'SPOT'))).toHaveLength(1)
  expect(own.filter((ownership) => ownership.hasList('rpi_symbols', null))).toHaveLength(1)
  expect(own.filter((ownership) => ownership.hasInstrument(instrumentAt(0)))).toHaveLength(1)
})

test('what moves to a member that comes is asked for by both at first', () => {
  const [before, now] = [new Rendezvous(equals(3)), new Rendezvous(equals(4))]
  const moved = keys.flatMap((key, index) => (now.ownerOf(key) === 'egress-3' ? [index] : []))
  expect(moved.length).toBeGreaterThan(40)
  const holders = (keeps: boolean, index: number) =>
    equals(4).filter(({ egress }) => ownershipOf(egress, now, before, keeps).hasInstrument(instrumentAt(index)))
  for (const index of moved) {
    expect(holders(true, index)).toHaveLength(2)
    expect(holders(false, index)).toEqual([member(3)])
  }
})

test('of what changes hands it is known whether anybody still asks for it', () => {
  const before = new Rendezvous(equals(3))
  // egress-0 goes, and egress-3 comes.
  const now = new Rendezvous([member(1), member(2), member(3)])
  const orphans = now.members.flatMap(({ egress }) => {
    const own = ownershipOf(egress, now, before)
    return keys.flatMap((_, index) =>
      own.hasInstrument(instrumentAt(index)) && own.isOrphan(instrumentAt(index)) ? [index] : [],
    )
  })
  const lost = keys.flatMap((key, index) => (before.ownerOf(key) === 'egress-0' ? [index] : []))
  expect(lost.length).toBeGreaterThan(50)
  expect(orphans.toSorted((a, b) => a - b)).toEqual(lost)
  expect(ownershipOf('egress-1', now).isOrphan(instrumentAt(lost[0] ?? 0))).toBe(false)
})

test('how uneven shares are is what chance does: about the square root of an address’s instruments', () => {
  // 1,459 order books, as in docs/internals/measured.md: the share of all that is beyond a fair share somewhere.
  const figures = [2, 8, 32, 128].map((count) => {
    const rendezvous = new Rendezvous(equals(count))
    const loads = new Map<string | null, number>()
    for (let index = 0; index < 1_459; index++) {
      const owner = rendezvous.ownerOf(keyAt(index))
      loads.set(owner, (loads.get(owner) ?? 0) + 1)
    }
    const fair = 1_459 / count
    const beyond = [...loads.values()].reduce((sum, load) => sum + Math.max(0, load - fair), 0)
    return { count, beyond: beyond / 1_459 }
  })
  for (const { count, beyond } of figures) expect(beyond).toBeLessThan(0.6 / Math.sqrt(1_459 / count))
})
