import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Assignment } from '../../../../src/collect/fleet/assignment.js'
import { type Demand, reassign } from '../../../../src/collect/fleet/reassign.js'
import { Rendezvous } from '../../../../src/collect/fleet/rendezvous.js'
import type { FleetMember } from '../../../../src/lease/fleetState.js'

const member = (index: number, weight = 6000): FleetMember => ({ egress: `egress-${index}`, weight })
const equals = (count: number) => Array.from({ length: count }, (_, index) => member(index))
const nobody = new Assignment({ members: [], placements: [] })
const keyAt = (index: number) => `SPOT COIN${index}USDT`

/** Fleets of different budgets, and a market in which a few trade most. */
const members = fc
  .array(fc.integer({ min: 600, max: 6000 }), { minLength: 2, maxLength: 12 })
  .map((weights) => weights.map((weight, index) => member(index, weight)))
const demands = fc
  .tuple(fc.integer({ min: 1, max: 300 }), fc.double({ min: 0, max: 1.5, noNaN: true }))
  .map(([count, skew]): Demand[] =>
    Array.from({ length: count }, (_, index) => ({
      stream: index % 3 === 0 ? 'fills' : 'order_books',
      key: keyAt(index),
      perSecond: 1 / (index + 1) ** skew,
    })),
  )

const ownersOf = (assignment: Assignment, wanted: readonly Demand[]) =>
  wanted.map(({ stream, key }) => assignment.ownerOf(stream, key))

/** What each has of a stream beyond its fair share, in instruments of the largest demand and shares of the whole. */
function excessOf(assignment: Assignment, wanted: readonly Demand[], stream: string) {
  const ofStream = wanted.filter((demand) => demand.stream === stream)
  const total = ofStream.reduce((sum, { perSecond }) => sum + perSecond, 0)
  const weights = assignment.members.reduce((sum, { weight }) => sum + weight, 0)
  return assignment.members.map(({ egress, weight }) => {
    const own = ofStream.filter(({ key }) => assignment.ownerOf('fills', key) === egress)
    const has = (
      stream === 'fills' ? own : ofStream.filter(({ key }) => assignment.ownerOf('order_books', key) === egress)
    )
      .map(({ perSecond }) => perSecond)
      .reduce((sum, perSecond) => sum + perSecond, 0)
    return { has, fair: (total * weight) / weights, max: Math.max(0, ...ofStream.map(({ perSecond }) => perSecond)) }
  })
}

describe('rendezvous hashing', () => {
  test('gives each its share of the weights, within what chance does', () => {
    const some = [member(0, 1000), member(1, 2000), member(2, 3000), member(3, 6000)]
    const rendezvous = new Rendezvous(some)
    const counts = new Map<string, number>()
    for (let index = 0; index < 12_000; index++) {
      const { egress } = rendezvous.winner(keyAt(index)) as FleetMember
      counts.set(egress, (counts.get(egress) ?? 0) + 1)
    }
    for (const { egress, weight } of some) {
      const share = weight / 12_000
      const deviation = Math.sqrt(12_000 * share * (1 - share))
      expect(Math.abs((counts.get(egress) ?? 0) - weight)).toBeLessThan(4.5 * deviation)
    }
  })

  test('gives a key to the next of its ranking when its owner is gone', () => {
    fc.assert(
      fc.property(members, fc.nat(5000), (some, index) => {
        const [first, second] = new Rendezvous(some).ranking(keyAt(index)) as [FleetMember, FleetMember]
        expect(new Rendezvous(some).winner(keyAt(index))).toEqual(first)
        const left = some.filter(({ egress }) => egress !== first.egress)
        expect(new Rendezvous(left).winner(keyAt(index))).toEqual(second)
      }),
    )
  })

  test('does not depend on the order in which members are known', () => {
    fc.assert(
      fc.property(members, fc.nat(5000), (some, index) => {
        expect(new Rendezvous(some.toReversed()).winner(keyAt(index))).toEqual(
          new Rendezvous(some).winner(keyAt(index)),
        )
      }),
    )
  })
})

describe('an assignment', () => {
  test('is balanced: nobody is above its fair share by more than 5 % and one instrument', () => {
    fc.assert(
      fc.property(members, demands, (some, wanted) => {
        const assignment = reassign(nobody, some, wanted)
        for (const stream of ['fills', 'order_books']) {
          for (const { has, fair, max } of excessOf(assignment, wanted, stream))
            expect(has).toBeLessThanOrEqual(fair * 1.05 + max + 1e-9)
        }
      }),
    )
  })

  test('changes nothing when it is made again', () => {
    fc.assert(
      fc.property(members, demands, (some, wanted) => {
        const assignment = reassign(nobody, some, wanted)
        const again = reassign(assignment, some, wanted)
        expect(again.placements.map((p) => `${p.stream} ${p.key} ${p.egress}`).toSorted()).toEqual(
          assignment.placements.map((p) => `${p.stream} ${p.key} ${p.egress}`).toSorted(),
        )
      }),
    )
  })

  test('gives away only what was of a member that is gone', () => {
    fc.assert(
      fc.property(members, demands, fc.nat(11), (some, wanted, which) => {
        const before = reassign(nobody, some, wanted)
        const gone = some[which % some.length]?.egress
        const after = reassign(
          before,
          some.filter(({ egress }) => egress !== gone),
          wanted,
        )
        const owners = ownersOf(after, wanted)
        for (const [index, owner] of ownersOf(before, wanted).entries()) {
          if (owner === gone) expect(owners[index]).not.toBe(gone)
          else expect(owners[index]).toBe(owner)
        }
      }),
    )
  })

  test('gives to a member that comes, and moves nothing between the others', () => {
    fc.assert(
      fc.property(members, demands, fc.integer({ min: 600, max: 6000 }), (some, wanted, weight) => {
        const before = reassign(nobody, some, wanted)
        const after = reassign(before, [...some, member(99, weight)], wanted)
        const owners = ownersOf(after, wanted)
        for (const [index, owner] of ownersOf(before, wanted).entries()) {
          if (owners[index] !== owner) expect(owners[index]).toBe('egress-99')
        }
      }),
    )
  })

  test('moves about a ninth when a ninth member comes to eight', () => {
    const wanted: Demand[] = Array.from({ length: 600 }, (_, index) => ({
      stream: 'order_books',
      key: keyAt(index),
      perSecond: 0.1,
    }))
    const before = reassign(nobody, equals(8), wanted)
    const after = reassign(before, equals(9), wanted)
    const owners = ownersOf(after, wanted)
    const moved = ownersOf(before, wanted).filter((owner, index) => owner !== owners[index]).length
    expect(moved).toBeGreaterThan(600 / 9 / 2)
    expect(moved).toBeLessThanOrEqual((600 / 9) * 1.05 + 1)
  })

  test('relieves a member whose instruments have become too busy, and leaves smaller changes alone', () => {
    const wanted: Demand[] = Array.from({ length: 80 }, (_, index) => ({
      stream: 'fills',
      key: keyAt(index),
      perSecond: 1,
    }))
    const before = reassign(nobody, equals(4), wanted)
    const busy = before.ownerOf('fills', keyAt(0))
    const withFactor = (factor: number) =>
      wanted.map((demand) =>
        before.ownerOf('fills', demand.key) === busy ? { ...demand, perSecond: demand.perSecond * factor } : demand,
      )
    const slightly = reassign(before, equals(4), withFactor(1.05))
    expect(ownersOf(slightly, wanted)).toEqual(ownersOf(before, wanted))
    const doubled = withFactor(2)
    const after = reassign(before, equals(4), doubled)
    for (const { has, fair, max } of excessOf(after, doubled, 'fills'))
      expect(has).toBeLessThanOrEqual(fair * 1.15 + max)
  })

  test('without known demand keeps what is placed where its members are, and goes by the hash otherwise', () => {
    const before = new Assignment({
      members: equals(3),
      placements: [
        { stream: 'fills', key: keyAt(1), egress: 'egress-0' },
        { stream: 'fills', key: keyAt(2), egress: 'egress-2' },
      ],
    })
    const after = reassign(before, equals(2), [])
    expect(after.placements).toEqual([{ stream: 'fills', key: keyAt(1), egress: 'egress-0' }])
    expect(after.ownerOf('candles', keyAt(7))).toBe(new Rendezvous(equals(2)).winner(keyAt(7))?.egress)
  })

  test('gives each list to one member, and each instrument of each stream', () => {
    const assignment = reassign(nobody, equals(5), [])
    const own = equals(5).map(({ egress }) => assignment.ownershipOf(egress))
    expect(own.filter((ownership) => ownership.hasList('tickers', 'SPOT'))).toHaveLength(1)
    expect(own.filter((ownership) => ownership.hasList('rpi_symbols', null))).toHaveLength(1)
    const key = { category: 'SPOT', symbol: 'BTCUSDT' } as const
    expect(own.filter((ownership) => ownership.hasInstrument('fills', key))).toHaveLength(1)
  })

  test('knows of what changes hands whether anybody still asks for it', () => {
    const before = reassign(nobody, equals(3), [])
    // egress-0 goes, and egress-3 comes.
    const after = reassign(before, [member(1), member(2), member(3)], [])
    const key = (index: number) => ({ category: 'SPOT', symbol: `COIN${index}USDT` }) as const
    const indexes = [...Array(300).keys()]
    const orphans = after.members.flatMap(({ egress }) => {
      const own = after.ownershipOf(egress, before)
      return indexes.filter((index) => own.hasInstrument('fills', key(index)) && own.isOrphan('fills', key(index)))
    })
    const lost = indexes.filter((index) => before.ownerOf('fills', keyAt(index)) === 'egress-0')
    expect(lost.length).toBeGreaterThan(50)
    expect(orphans.toSorted((a, b) => a - b)).toEqual(lost)
    expect(after.ownershipOf('egress-1').isOrphan('fills', key(lost[0] ?? 0))).toBe(false)
  })
})
