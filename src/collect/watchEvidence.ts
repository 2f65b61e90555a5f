import type { Kysely } from 'kysely'
import type { Database } from '../db/schema.js'
import { contradictedShares, giveUpOldEvidence, maxEvidence, standingEvidence } from '../ledger/verdicts.js'
import { type Clock, sleepFor } from '../runtime/clock.js'
import type { Incidents } from '../runtime/incidents.js'
import type { Logger } from '../runtime/logger.js'
import { messageOf } from '../runtime/text.js'

/** Time between two looks at the evidence against claims. */
const lookEveryMs = 20_000
/** From this share of a category's minutes on, its candles contradict its fills as a whole. */
const tolerableShare = 0.01

interface WatchOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly incidents: Incidents
  readonly signal: AbortSignal
  /** Returns true if this recorder looks. One recorder of a fleet does. */
  readonly isOwn: () => boolean
}

/**
 * Reports evidence against claims every 20 s, until `signal` aborts, and gives up what is too old. Each piece is
 * reported once, and what stood before the first look in one report. The incident lasts as long as evidence stands.
 */
export async function keepWatchingEvidence(
  db: Kysely<Database>,
  { clock, logger, incidents, signal, isOwn }: WatchOptions,
): Promise<void> {
  let known: ReadonlySet<number> | null = null
  // Older evidence was left out of a full look, and comes into a later one when younger evidence ends.
  let oldest = 0
  while (await sleepFor(clock, lookEveryMs, signal)) {
    if (!isOwn()) {
      for (const what of ['evidence', 'contradicted fills'] as const) incidents.keepOnly(what, new Set())
      known = null
      oldest = 0
      continue
    }
    try {
      const standing = await standingEvidence(db)
      // Numbers are not in the order of commits, so that a younger one says nothing of an older one.
      const fresh = standing.filter(({ id }) => id >= oldest && !known?.has(id))
      if (standing.length === 0) incidents.succeeded('evidence')
      else if (fresh.length > 0) incidents.failed('evidence', describe(fresh, known === null))
      known = new Set(standing.map(({ id }) => id))
      if (standing.length === maxEvidence) oldest = Math.max(oldest, Math.min(...known))
      const contradicted = (await contradictedShares(db)).filter(({ share }) => share > tolerableShare)
      const parts = contradicted.map(
        ({ category, share }) => `${(share * 100).toFixed(1)} % of the minutes of ${category}`,
      )
      if (parts.length === 0) incidents.succeeded('contradicted fills')
      else incidents.failed('contradicted fills', `candles contradict ${parts.join(', ')} in the last day`)
      await giveUpOldEvidence(db)
    } catch (error) {
      // The database is away or busy. Looking later loses nothing.
      logger.debug(`evidence against claims could not be read: ${messageOf(error)}`)
    }
  }
}

function describe(found: Awaited<ReturnType<typeof standingEvidence>>, isFirst: boolean): string {
  const shown = found.slice(0, 3).map(({ stream, category, symbol, from, reason }) => {
    return `${stream} of ${category} ${symbol} at ${new Date(from).toISOString().slice(0, 19)}Z (${reason})`
  })
  const number = found.length < maxEvidence ? found.length : `${maxEvidence} or more`
  const others = found.length > shown.length ? ` and others, ${number} together` : ''
  const how = isFirst ? 'rows still contradict what was claimed before' : 'rows contradict what was claimed'
  return `${how}: ${shown.join(', ')}${others}; these ranges are gaps now`
}
