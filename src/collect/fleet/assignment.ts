import { type Category, instrumentText } from '../../market/category.js'
import type { StreamName } from '../../market/stream.js'
import type { Ownership } from '../universe/ownership.js'
import type { FleetMember } from '../../lease/fleetState.js'
import { Rendezvous } from './rendezvous.js'

/** An instrument of a stream that is not where its hash would put it. */
export interface Placement {
  readonly stream: StreamName
  readonly key: string
  readonly egress: string
}

/** Who asks for what: what these two say is all that there is to know. */
export interface AssignmentData {
  readonly members: readonly FleetMember[]
  readonly placements: readonly Placement[]
}

/** Whose each instrument of each stream is, and each list. Every recorder that has the same data comes to the same. */
export class Assignment {
  readonly members: readonly FleetMember[]
  readonly placements: readonly Placement[]
  readonly #rendezvous: Rendezvous
  readonly #placed: ReadonlyMap<string, string>
  readonly #won = new Map<string, string | null>()

  constructor({ members, placements }: AssignmentData) {
    const known = new Set(members.map(({ egress }) => egress))
    this.members = members
    this.placements = placements.filter(({ egress }) => known.has(egress))
    this.#rendezvous = new Rendezvous(members)
    this.#placed = new Map(this.placements.map(({ stream, key, egress }) => [placeName(stream, key), egress]))
  }

  /** The address that asks for a stream of an instrument; null where there is none at all. */
  ownerOf(stream: StreamName, key: string): string | null {
    return this.#placed.get(placeName(stream, key)) ?? this.hashedTo(key)
  }

  /** The address that asks for a list. */
  ownerOfList(stream: StreamName, category: Category | null): string | null {
    return this.hashedTo(`list of ${stream} ${category ?? ''}`)
  }

  /** Where the hash alone puts a key: all streams of an instrument to one, as long as nothing is placed otherwise. */
  hashedTo(key: string): string | null {
    const known = this.#won.get(key)
    if (known !== undefined) return known
    const winner = this.#rendezvous.winner(key)?.egress ?? null
    this.#won.set(key, winner)
    return winner
  }

  /** What of it one member asks for. @param before the assignment that this one follows on, as far as that is known */
  ownershipOf(egress: string, before: Assignment | null = null): Ownership {
    const present = new Set(this.members.map((member) => member.egress))
    return {
      hasInstrument: (stream, key) => this.ownerOf(stream, instrumentText(key)) === egress,
      hasList: (stream, category) => this.ownerOfList(stream, category) === egress,
      isOrphan: (stream, key) => {
        const owner = before?.ownerOf(stream, instrumentText(key)) ?? null
        return owner !== null && !present.has(owner)
      },
    }
  }
}

function placeName(stream: StreamName, key: string): string {
  return `${stream} ${key}`
}
