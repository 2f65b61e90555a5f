import type { Kysely } from 'kysely'
import { hourMs, type TimeMs } from '../market/values.js'
import { databaseNow } from './databaseNow.js'
import type { Database } from './schema.js'

/** Clocks further apart than this tell that one of them is wrong, and not which. */
const maxApartMs = hourMs

export interface Clocks {
  readonly machineNow: () => TimeMs
  /** Where the service's clock is known. */
  readonly serviceNow?: () => TimeMs
}

export type RemovalTime = { readonly now: TimeMs } | { readonly problem: string }

/**
 * The time by which rows are old. That is not for this machine's clock alone to say: one that is set months ahead would have everything
 * removed. So the earliest of all clocks counts, and where they differ by much there is none, but one line on what to do.
 */
export async function removalTime(db: Kysely<Database>, { machineNow, serviceNow }: Clocks): Promise<RemovalTime> {
  const database = await databaseNow(db)
  const [machine, service] = [machineNow(), serviceNow?.()]
  const times = [machine, database, ...(service === undefined ? [] : [service])]
  if (doAgree(...times)) return { now: Math.min(...times) }
  const text = (time: TimeMs) => new Date(time).toISOString()
  const shown = [
    `${text(machine)} on this machine`,
    `${text(database)} in the database`,
    ...(service === undefined ? [] : [`${text(service)} at the service`]),
  ]
  return {
    problem: `nothing old is removed while clocks are more than an hour apart: ${shown.join(', ')}; set the one that is wrong`,
  }
}

/** Whether clocks show about the same time. */
export function doAgree(...times: readonly TimeMs[]): boolean {
  return Math.max(...times) - Math.min(...times) <= maxApartMs
}
