import type { FleetSight } from '../../lease/fleetState.js'
import type { Assignment } from './assignment.js'
import { isGone } from './presence.js'
import type { Demand } from './reassign.js'

/** A recorder that shares the work, or did until a moment ago. */
export interface FleetRecorder {
  readonly egress: string
  readonly place: string
  /** `gone`: it ended without a word, or cannot reach the database. */
  readonly state: 'recording' | 'gone'
  /** How long ago it last said that it is there. */
  readonly silentMs: number
  /** Instruments of streams that it asks for. */
  readonly instruments: number
  /** Requests a second that they take. */
  readonly perSecond: number
}

export interface FleetReport {
  /** Counts the changes of the assignment; 0 before the first look. */
  readonly version: number
  readonly recorders: readonly FleetRecorder[]
  /** Instruments of streams whose owner is gone and that nobody has taken over yet. */
  readonly unowned: number
}

/** How the work is shared. Of a recorder without others it says that it is there. */
export function reportOf(
  self: string,
  sight: FleetSight | null,
  assignment: Assignment | null,
  demand: () => readonly Demand[],
): FleetReport {
  if (sight === null || assignment === null) return { version: 0, recorders: [], unowned: 0 }
  const present = new Set(
    sight.recorders.filter((seen) => seen.egress === self || !isGone(seen)).map(({ egress }) => egress),
  )
  present.add(self)
  const shares = new Map<string, { instruments: number; perSecond: number }>()
  let unowned = 0
  for (const { stream, key, perSecond } of assignment.members.length > 1 ? demand() : []) {
    const owner = assignment.ownerOf(stream, key) ?? ''
    const share = shares.get(owner) ?? { instruments: 0, perSecond: 0 }
    shares.set(owner, { instruments: share.instruments + 1, perSecond: share.perSecond + perSecond })
    if (!present.has(owner)) unowned++
  }
  return {
    version: sight.version,
    unowned,
    recorders: sight.recorders.map(({ egress, place, silentMs }) => ({
      egress,
      place,
      state: present.has(egress) ? 'recording' : 'gone',
      silentMs: egress === self ? 0 : silentMs,
      ...(shares.get(egress) ?? { instruments: 0, perSecond: 0 }),
    })),
  }
}
