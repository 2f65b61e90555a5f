import type { StreamName } from '../../market/stream.js'
import { Assignment, type Placement } from './assignment.js'
import type { FleetMember } from '../../lease/fleetState.js'
import { Rendezvous } from './rendezvous.js'

/** What a stream of an instrument takes. */
export interface Demand {
  readonly stream: StreamName
  readonly key: string
  /** Requests a second. Above 0. */
  readonly perSecond: number
}

/** A member is given something as long as it stays below its fair share and so much more. */
const placeSlack = 0.05
/** Something is taken from a member that has more than its fair share by this: measured demand varies all day long. */
const moveSlack = 0.15

/**
 * The assignment that follows when members have come or gone, or demand is another. Moves only what has to:
 *
 * - of a member that is gone its own goes to the others;
 * - to one that has come goes what its hash wins, and where others have too much, something more of theirs: nothing goes from one
 *   of the others to another;
 * - when nobody came or went, something goes from those that have more than `1 + moveSlack` of their fair share.
 *
 * Of each stream nobody is given more than `1 + placeSlack` of its fair share, by weight, and one instrument on top, as long
 * as anybody is below that. Where nothing is known of a stream's demand, the hash decides alone. Pure: run twice it changes nothing.
 */
export function reassign(before: Assignment, members: readonly FleetMember[], demands: readonly Demand[]): Assignment {
  const byStream = new Map<StreamName, Demand[]>()
  for (const demand of demands) {
    const ofStream = byStream.get(demand.stream)
    if (ofStream === undefined) byStream.set(demand.stream, [demand])
    else ofStream.push(demand)
  }
  const kept = before.placements.filter(({ stream }) => !byStream.has(stream))
  const placed = [...byStream].flatMap(([stream, ofStream]) => new StreamShare(stream, before, members).share(ofStream))
  return new Assignment({ members, placements: [...kept, ...placed] })
}

interface Load {
  readonly member: FleetMember
  /** Its part of all weights. */
  readonly part: number
  perSecond: number
  readonly has: Demand[]
}

class StreamShare {
  readonly #stream: StreamName
  readonly #before: Assignment
  readonly #loads: ReadonlyMap<string, Load>
  readonly #rendezvous: Rendezvous
  readonly #hashed: Assignment
  readonly #joined: ReadonlySet<string>
  /** Whether a member is gone. */
  readonly #hasLoss: boolean
  #total = 0

  constructor(stream: StreamName, before: Assignment, members: readonly FleetMember[]) {
    const weights = members.reduce((sum, { weight }) => sum + weight, 0)
    const known = new Set(before.members.map(({ egress }) => egress))
    this.#stream = stream
    this.#before = before
    this.#loads = new Map(
      members.map((member) => [member.egress, { member, part: member.weight / weights, perSecond: 0, has: [] }]),
    )
    this.#rendezvous = new Rendezvous(members)
    this.#hashed = new Assignment({ members, placements: [] })
    this.#hasLoss = before.members.some(({ egress }) => !this.#loads.has(egress))
    this.#joined = new Set(members.map(({ egress }) => egress).filter((egress) => !known.has(egress)))
  }

  /** Gives each its owner; returns those that are not where their hash puts them. */
  share(demands: readonly Demand[]): Placement[] {
    this.#total = demands.reduce((sum, { perSecond }) => sum + perSecond, 0)
    const busiestFirst = demands.toSorted((a, b) => b.perSecond - a.perSecond || (a.key < b.key ? -1 : 1))
    const orphans: Demand[] = []
    const won: Demand[] = []
    for (const demand of busiestFirst) {
      const owner = this.#loads.get(this.#before.ownerOf(this.#stream, demand.key) ?? '')
      if (owner === undefined) orphans.push(demand)
      else if (this.#joined.has(this.#hashed.hashedTo(demand.key) ?? '')) won.push(demand)
      else give(owner, demand)
    }
    for (const demand of won) {
      const winner = this.#loads.get(this.#hashed.hashedTo(demand.key) ?? '')
      const owner = this.#loads.get(this.#before.ownerOf(this.#stream, demand.key) ?? '')
      const taker = winner !== undefined && this.#hasRoom(winner, demand) ? winner : owner
      if (taker !== undefined) give(taker, demand)
    }
    for (const demand of orphans) this.#giveToAny(demand)
    this.#relieve()
    return [...this.#loads.values()].flatMap(({ member: { egress }, has }) =>
      has
        .filter(({ key }) => this.#hashed.hashedTo(key) !== egress)
        .map(({ key }) => ({ stream: this.#stream, key, egress })),
    )
  }

  #giveToAny(demand: Demand): void {
    const first = this.#loads.get(this.#hashed.hashedTo(demand.key) ?? '')
    if (first !== undefined && this.#hasRoom(first, demand)) return give(first, demand)
    const taker = this.#withRoom(demand, () => true) ?? this.#freest()
    if (taker !== undefined) give(taker, demand)
  }

  /** Takes from those that have far too much what others have room for, the busiest first. */
  #relieve(): void {
    // Who has come takes; between the others nothing moves at the same time.
    if (this.#hasLoss && this.#joined.size === 0) return
    const mayTake = ({ member }: Load) => this.#joined.size === 0 || this.#joined.has(member.egress)
    for (const load of this.#loads.values()) {
      if (load.perSecond <= this.#fair(load) * (1 + moveSlack)) continue
      for (const demand of load.has.slice()) {
        if (load.perSecond <= this.#fair(load) * (1 + placeSlack)) break
        // One that is more than what is too much would only move the trouble.
        if (load.perSecond - demand.perSecond < this.#fair(load) * (1 - placeSlack)) continue
        const taker = this.#withRoom(demand, (other) => other !== load && mayTake(other))
        if (taker === undefined) continue
        take(load, demand)
        give(taker, demand)
      }
    }
  }

  #withRoom(demand: Demand, mayTake: (load: Load) => boolean): Load | undefined {
    return this.#rendezvous
      .ranking(demand.key)
      .map(({ egress }) => this.#loads.get(egress))
      .find((load) => load !== undefined && mayTake(load) && this.#hasRoom(load, demand))
  }

  #freest(): Load | undefined {
    return [...this.#loads.values()].toSorted((a, b) => a.perSecond / a.part - b.perSecond / b.part)[0]
  }

  #hasRoom(load: Load, { perSecond }: Demand): boolean {
    return load.perSecond + perSecond <= this.#fair(load) * (1 + placeSlack)
  }

  #fair({ part }: Load): number {
    return this.#total * part
  }
}

function give(load: Load, demand: Demand): void {
  load.has.push(demand)
  load.perSecond += demand.perSecond
}

function take(load: Load, demand: Demand): void {
  load.has.splice(load.has.indexOf(demand), 1)
  load.perSecond -= demand.perSecond
}
