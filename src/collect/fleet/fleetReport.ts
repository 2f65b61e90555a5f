import type { Config } from '../../config/resolve.js'
import type { SeenRecorder } from '../../lease/leaseRow.js'
import { instrumentText } from '../../market/category.js'
import type { StreamName } from '../../market/stream.js'
import { instrumentDemands } from '../plan/demand.js'
import { enabledStreams } from '../streams/streams.js'
import type { PlanUniverse } from '../universe/planUniverse.js'
import type { Rendezvous } from './rendezvous.js'

/** Requests that one stream needs for one instrument or list. */
export interface Demand {
  readonly stream: StreamName
  readonly key: string
  /** Requests a second. Above 0. */
  readonly perSecond: number
}

/** Demand of each instrument of each stream, from recent recordings where known, otherwise from its ticker. */
export function fleetDemand(config: Config, { kind, instruments }: PlanUniverse): Demand[] {
  return enabledStreams(config).flatMap((stream) =>
    instrumentDemands(stream, config, { kind, instruments }).map(({ instrument, perSecond }) => ({
      stream: stream.name,
      key: instrumentText(instrument),
      perSecond,
    })),
  )
}

/** A recorder that shares the work, or did until a moment ago. */
interface FleetRecorder {
  readonly egress: string
  readonly place: string
  /** `gone` when the recorder ended without saying so, or cannot reach the database. */
  readonly state: 'recording' | 'gone'
  /** Time since the recorder last renewed its lease. */
  readonly silentMs: number
  /** Pairs of stream and instrument that the recorder requests. */
  readonly instruments: number
  /** Requests a second that these instruments need. */
  readonly perSecond: number
}

export interface FleetReport {
  readonly recorders: readonly FleetRecorder[]
  /** Instruments of streams whose owner is gone and that nobody has taken over yet. */
  readonly unowned: number
}

/** Reports how the work is shared. A single recorder is listed without a share. */
export function reportOf(
  self: string,
  recorders: readonly SeenRecorder[],
  rendezvous: Rendezvous | null,
  demand: () => readonly Demand[],
): FleetReport {
  if (rendezvous === null) return { recorders: [], unowned: 0 }
  const live = new Set(recorders.filter(({ isLive }) => isLive).map(({ egress }) => egress)).add(self)
  const shares = new Map<string, { instruments: number; perSecond: number }>()
  let unowned = 0
  for (const { key, perSecond } of rendezvous.members.length > 1 ? demand() : []) {
    const owner = rendezvous.ownerOf(key) ?? ''
    const share = shares.get(owner) ?? { instruments: 0, perSecond: 0 }
    shares.set(owner, { instruments: share.instruments + 1, perSecond: share.perSecond + perSecond })
    if (!live.has(owner)) unowned++
  }
  return {
    unowned,
    recorders: recorders.map(({ egress, place, silentMs }) => ({
      egress,
      place,
      state: live.has(egress) ? 'recording' : 'gone',
      silentMs: egress === self ? 0 : silentMs,
      ...(shares.get(egress) ?? { instruments: 0, perSecond: 0 }),
    })),
  }
}
