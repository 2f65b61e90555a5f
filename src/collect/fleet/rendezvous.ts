import { type Category, instrumentText } from '../../market/category.js'
import type { StreamName } from '../../market/stream.js'
import type { Ownership } from '../universe/ownership.js'

/** A recorder that shares the work, by the address that it sends from. */
export interface FleetMember {
  /** Name of the address: collector.egress. */
  readonly egress: string
  /** Requests a minute that the service allows its address. Above 0. */
  readonly weight: number
}

/**
 * Weighted rendezvous hashing: each member draws a number for each key, and the highest has it. A member's number depends on no
 * other member. One that leaves loses its own keys and nobody another, and one that joins takes only those that it wins. Of all
 * keys a member wins its share of all weights.
 */
export class Rendezvous {
  readonly members: readonly FleetMember[]
  readonly #hashes: readonly number[]
  readonly #owners = new Map<string, string | null>()

  constructor(members: readonly FleetMember[]) {
    this.members = members
    this.#hashes = members.map(({ egress }) => hashOf(egress))
  }

  /** The address that asks for an instrument, with all its streams; null without members. */
  ownerOf(key: string): string | null {
    const known = this.#owners.get(key)
    if (known !== undefined) return known
    const owner = this.#winner(key)
    this.#owners.set(key, owner)
    return owner
  }

  ownerOfList(stream: StreamName, category: Category | null): string | null {
    return this.ownerOf(`list of ${stream} ${category ?? ''}`)
  }

  #winner(key: string): string | null {
    const keyHash = hashOf(key)
    let best: FleetMember | null = null
    let bestScore = -Infinity
    for (const [place, member] of this.members.entries()) {
      const score = scoreOf(this.#hashes[place] ?? 0, keyHash, member.weight)
      // Of two that draw the same number every recorder has to choose alike, in whatever order it knows them.
      if (score > bestScore || (score === bestScore && best !== null && member.egress < best.egress)) {
        best = member
        bestScore = score
      }
    }
    return best?.egress ?? null
  }
}

/**
 * What is one member's own. @param before the members that these follow on
 * @param keepsBefore whether it also asks for what was its own before: until whoever has it now certainly asks for it
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
    hasInstrument(_stream, instrument) {
      const key = instrumentText(instrument)
      return now.ownerOf(key) === egress || kept?.ownerOf(key) === egress
    },
    hasList: (stream, category) =>
      now.ownerOfList(stream, category) === egress || kept?.ownerOfList(stream, category) === egress,
    isOrphan(_stream, instrument) {
      const owner = before?.ownerOf(instrumentText(instrument)) ?? null
      return owner !== null && !present.has(owner)
    },
  }
}

/** With u drawn evenly from (0, 1), -w / ln u is the highest for each of them with probability w / sum of all w. */
function scoreOf(memberHash: number, keyHash: number, weight: number): number {
  const drawn = mixed(Math.imul(keyHash, 0x9e3779b1) ^ mixed(memberHash ^ keyHash))
  return -weight / Math.log((drawn + 0.5) / 2 ** 32)
}

/** FNV-1a, mixed: equal in every process. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  return mixed(hash)
}

/** Spreads what two numbers differ in over all their 32 bits (the last steps of MurmurHash3). */
function mixed(value: number): number {
  let bits = value
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}
