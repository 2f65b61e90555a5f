import { type Kysely, sql } from 'kysely'
import { callFunction, databaseNow } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { hourMs, type MachineMs, type ServiceMs, serviceMs } from '../market/values.js'

/** Rows that one statement deletes. They are few, so that it ends soon and holds its locks briefly. */
const rowsPerDelete = 10_000

/** Removes what is known of a stream before a time: its coverage, its silence and its gaps. */
export async function forget(db: Kysely<Database>, stream: string, before: Date): Promise<void> {
  await deleteGaps(db, stream, before)
  if (stream === 'fills') await callFunction(db, 'recorder.keep_fill_marks', before)
  await callFunction(db, 'recorder.end_claims', stream, '-infinity', before, false)
}

/** Deletes gaps, and evidence, that end before a time. Nobody repairs a gap in rows that would be removed again. */
async function deleteGaps(db: Kysely<Database>, stream: string, before: Date): Promise<void> {
  for (;;) {
    const { numAffectedRows = 0n } = await sql`
      delete from recorder.ledger where ctid = any(array(
        select ctid from recorder.ledger
        where stream = ${stream} and verdict in ('missing', 'lost', 'repaired', 'contradicted', 'disputed') and part < ${before}::timestamptz
          and upper(ranges) <= ${before}::timestamptz
        limit ${sql.lit(rowsPerDelete)}
      ))`.execute(db)
    if (numAffectedRows < rowsPerDelete) return
  }
}

/** If clocks are further apart than this, one of them is wrong. It is not known which. */
const maxApartMs = hourMs

interface Clocks {
  readonly machineNow: () => MachineMs
  /** Reads the service's clock. Absent if that clock is not known. */
  readonly serviceNow?: () => ServiceMs
}

type RemovalTime = { readonly now: ServiceMs } | { readonly problem: string }

/**
 * Resolves to the time by which the age of rows is judged: the earliest of all clocks. A single clock that is set
 * months ahead would have everything removed. If the clocks differ too much, the result is one line on what to do
 * instead.
 */
export async function removalTime(db: Kysely<Database>, { machineNow, serviceNow }: Clocks): Promise<RemovalTime> {
  const database = await databaseNow(db)
  const [machine, service] = [machineNow(), serviceNow?.()]
  const times = [machine, database, ...(service === undefined ? [] : [service])]
  if (doAgree(...times)) return { now: serviceMs(Math.min(...times)) }
  const text = (time: number) => new Date(time).toISOString()
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
export function doAgree(...times: readonly number[]): boolean {
  return Math.max(...times) - Math.min(...times) <= maxApartMs
}
