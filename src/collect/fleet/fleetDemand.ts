import type { Config } from '../../config/resolve.js'
import { enabledStreams } from '../../config/streamOptions.js'
import { instrumentText } from '../../market/category.js'
import { instrumentDemands } from '../plan/planDemand.js'
import type { PlanUniverse } from '../universe/planUniverse.js'
import type { Demand } from './reassign.js'

/** What each instrument of each stream takes: as recorded lately where that is known, and otherwise as its ticker claims. */
export function fleetDemand(config: Config, { kind, instruments }: PlanUniverse): Demand[] {
  return enabledStreams(config).flatMap((stream) =>
    instrumentDemands(stream, config, { kind, instruments }).map(({ instrument, perSecond }) => ({
      stream,
      key: instrumentText(instrument),
      perSecond,
    })),
  )
}
