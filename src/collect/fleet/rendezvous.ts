import { type Category, instrumentText } from '../../market/category.js'
import type { StreamName } from '../../market/stream.js'
import { BoundedMap } from '../../runtime/boundedMap.js'
import { hashOf } from '../schedule/pace.js'
import type { Ownership } from '../universe/planUniverse.js'

/** A recorder that shares the work, by the address that it sends from. */
export interface FleetMember {
  /** Name of the address: collector.egress. */
  readonly egress: string
  /** Requests a minute that the service allows its address. Above 0. */
  readonly weight: number
}

/**
 * Weighted rendezvous hashing. Each member draws a number for each key, and the highest number wins the key. A member's
 * number depends on no other member. When a member leaves, only its own keys move. When a member joins, only the keys
 * that it wins move. Each member wins a share of all keys in proportion to its weight.
 */
export class Rendezvous {
  readonly members: readonly FleetMember[]
  readonly #hashes: readonly number[]
  readonly #owners = new BoundedMap<string | null>()

  constructor(members: readonly FleetMember[]) {
    this.members = members
    this.#hashes = members.map(({ egress }) => mixed(hashOf(egress)))
  }

  /** The address that requests all streams of an instrument; null without members. */
  ownerOf(key: string): string | null {
    const found = this.#owners.get(key)
    if (found !== undefined) return found
    const owner = this.#winner(key)
    this.#owners.set(key, owner)
    return owner
  }

  ownerOfList(stream: StreamName, category: Category | null): string | null {
    return this.ownerOf(`list of ${stream} ${category ?? ''}`)
  }

  #winner(key: string): string | null {
    const keyHash = mixed(hashOf(key))
    let best: FleetMember | null = null
    let bestScore = -Infinity
    for (const [index, member] of this.members.entries()) {
      const score = scoreOf(this.#hashes[index] ?? 0, keyHash, member.weight)
      // When two members draw the same number, every recorder must choose the same one, whatever their order here.
      if (score > bestScore || (score === bestScore && best !== null && member.egress < best.egress)) {
        best = member
        bestScore = score
      }
    }
    return best?.egress ?? null
  }
}

/**
 * Returns the share of the work that one member has. @param before the members that `now` replaces
 * @param keepsBefore true while the member also requests its previous share, until the new owners certainly do
 */
export function ownershipOf(
  egress: string,
  now: Rendezvous,
  before: Rendezvous | null = null,
  keepsBefore = false,
): Ownership {
  const kept = keepsBefore ? before : null
  const present = new Set(now.members.map((member) => member.egress))
  return {
    hasInstrument(instrument) {
      const key = instrumentText(instrument)
      return now.ownerOf(key) === egress || kept?.ownerOf(key) === egress
    },
    hasList: (stream, category) =>
      now.ownerOfList(stream, category) === egress || kept?.ownerOfList(stream, category) === egress,
    isOrphan(instrument) {
      const owner = before?.ownerOf(instrumentText(instrument)) ?? null
      return owner !== null && !present.has(owner)
    },
  }
}

/** Draws u from (0, 1) and returns -w / ln u. A recorder's number is the highest with probability w / sum of all w. */
function scoreOf(memberHash: number, keyHash: number, weight: number): number {
  const drawn = mixed(Math.imul(keyHash, 0x9e3779b1) ^ mixed(memberHash ^ keyHash))
  return -weight / Math.log((drawn + 0.5) / 2 ** 32)
}

/** Mixes a number so that changing one bit changes about half of the 32 (the last steps of MurmurHash3). */
function mixed(value: number): number {
  let bits = value
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}
