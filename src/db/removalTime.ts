import type { Kysely } from 'kysely'
import { hourMs, type TimeMs } from '../market/values.js'
import { databaseNow } from './databaseNow.js'
import type { Database } from './schema.js'

/** If clocks are further apart than this, one of them is wrong. It is not known which. */
const maxApartMs = hourMs

export interface Clocks {
  readonly machineNow: () => TimeMs
  /** Reads the service's clock, where it is known. */
  readonly serviceNow?: () => TimeMs
}

export type RemovalTime = { readonly now: TimeMs } | { readonly problem: string }

/**
 * Resolves to the time by which the age of rows is judged: the earliest of all clocks. A single clock that is set
 * months ahead would have everything removed. If the clocks differ too much, the result is one line on what to do
 * instead.
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

/** Returns true if all times lie within an hour. */
export function doAgree(...times: readonly TimeMs[]): boolean {
  return Math.max(...times) - Math.min(...times) <= maxApartMs
}
