import type { FleetMember, FleetSight, SeenRecorder } from '../../lease/fleetState.js'

/** A recorder that has said nothing for so long is taken for gone: what it asked for is asked for by others. */
const goneAfterMs = 5_000
/** The same for one whose session with the database has ended. One that lives is back within a second. */
const goneWithoutSessionMs = 2_500
/**
 * A recorder that has just come to the database, or back to it, takes nobody for gone: where the database was away, the others
 * may not have been able to say anything yet.
 */
const settledAfterMs = 6_000

/** Whether a recorder has ended without a word, or cannot reach the database. */
export function isGone({ silentMs, hasSession }: Pick<SeenRecorder, 'silentMs' | 'hasSession'>): boolean {
  return silentMs >= (hasSession ? goneAfterMs : goneWithoutSessionMs)
}

/** Those that share the work at this moment, by name: who has spoken lately, and who is not known to be gone. */
export function presentMembers(sight: FleetSight, self: FleetMember, sessionAgeMs: number): FleetMember[] {
  const before = new Set(sight.members.map(({ egress }) => egress))
  const isPresent = (seen: SeenRecorder) => !isGone(seen) || (sessionAgeMs < settledAfterMs && before.has(seen.egress))
  const others = sight.recorders
    .filter((seen) => seen.egress !== self.egress && isPresent(seen))
    .map(({ egress, budget }) => ({ egress, weight: budget }))
  return [...others, self].toSorted((a, b) => (a.egress < b.egress ? -1 : 1))
}

export function areSame(some: readonly FleetMember[], others: readonly FleetMember[]): boolean {
  return (
    some.length === others.length &&
    some.every(({ egress, weight }, index) => egress === others[index]?.egress && weight === others[index]?.weight)
  )
}
