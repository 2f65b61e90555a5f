import type { FleetMember } from '../../lease/fleetState.js'

/**
 * Weighted rendezvous hashing: each member draws a number for each key, and the highest has it. What a member draws depends on
 * nobody else, so one that leaves loses its own keys and nobody another, and one that joins takes only those that it wins.
 * Of all keys a member wins its share of all weights.
 */
export class Rendezvous {
  readonly #members: readonly { readonly member: FleetMember; readonly hash: number }[]

  constructor(members: readonly FleetMember[]) {
    this.#members = members.map((member) => ({ member, hash: hashOf(member.egress) }))
  }

  /** Whose a key is; null where there is nobody. */
  winner(key: string): FleetMember | null {
    const keyHash = hashOf(key)
    let best: FleetMember | null = null
    let bestScore = -Infinity
    for (const { member, hash } of this.#members) {
      const score = scoreOf(hash, keyHash, member.weight)
      // Two that draw the same: every recorder has to decide alike, in whatever order it knows them.
      if (score > bestScore || (score === bestScore && best !== null && member.egress < best.egress)) {
        best = member
        bestScore = score
      }
    }
    return best
  }

  /** All members, in the order in which they would have a key if those before them were gone. */
  ranking(key: string): FleetMember[] {
    const keyHash = hashOf(key)
    return this.#members
      .map(({ member, hash }) => ({ member, score: scoreOf(hash, keyHash, member.weight) }))
      .toSorted((a, b) => b.score - a.score || (a.member.egress < b.member.egress ? -1 : 1))
      .map(({ member }) => member)
  }
}

/** With u drawn evenly from (0, 1), -w / ln u is the highest for each of them with probability w / sum of all w. */
function scoreOf(memberHash: number, keyHash: number, weight: number): number {
  const drawn = mixed(Math.imul(keyHash, 0x9e3779b1) ^ mixed(memberHash ^ keyHash))
  return -weight / Math.log((drawn + 0.5) / 2 ** 32)
}

/** FNV-1a, mixed: the same in every process. */
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
