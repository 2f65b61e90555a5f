import type { Kysely } from 'kysely'
import type { Database } from '../db/schema.js'
import { contradictedShares, evidenceAfter, giveUpOldEvidence } from '../ledger/verdicts.js'
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

/** Reports evidence against claims every 20 s, until `signal` aborts, and gives up what is too old. */
export async function keepWatchingEvidence(
  db: Kysely<Database>,
  { clock, logger, incidents, signal, isOwn }: WatchOptions,
): Promise<void> {
  let after = 0
  while (await sleepFor(clock, lookEveryMs, signal)) {
    if (!isOwn()) continue
    try {
      const found = await evidenceAfter(db, after)
      after = found.at(-1)?.id ?? after
      if (found.length === 0) incidents.succeeded('evidence')
      else incidents.failed('evidence', describe(found))
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

function describe(found: Awaited<ReturnType<typeof evidenceAfter>>): string {
  const shown = found.slice(0, 3).map(({ stream, category, symbol, from, reason }) => {
    return `${stream} of ${category} ${symbol} at ${new Date(from).toISOString().slice(0, 19)}Z (${reason})`
  })
  const others = found.length > shown.length ? ` and ${found.length - shown.length} more` : ''
  return `rows contradict what was claimed: ${shown.join(', ')}${others}; these ranges are gaps now`
}
