import { type Kysely, sql } from 'kysely'
import type { Category, InstrumentKey } from '../market/category.js'
import { dayMs, minuteMs, type ServiceMs } from '../market/values.js'
import { callFunction } from '../db/database.js'
import type { Database } from '../db/schema.js'

/** Evidence against the claim of a range that begins at `from`. */
interface Evidence extends InstrumentKey {
  readonly id: number
  readonly stream: string
  readonly from: ServiceMs
  readonly reason: string
}

/** Reads evidence with a number above `after`, in the order of its numbers. */
export async function evidenceAfter(db: Kysely<Database>, after: number): Promise<Evidence[]> {
  const { rows } = await sql<Evidence>`
    select id, stream, category, symbol, part as "from", reason from recorder.ledger
    where verdict in ('contradicted', 'disputed') and id > ${after} order by id limit 1000`.execute(db)
  return rows
}

interface ContradictedShare {
  readonly category: Category
  /** Share of the minutes of the last day, of all instruments whose fills are requested. */
  readonly share: number
}

/** Computes for each category the share of minutes that candles contradict. */
export async function contradictedShares(db: Kysely<Database>): Promise<ContradictedShare[]> {
  const { rows } = await sql<ContradictedShare>`
    select category, (
        select count(*) from recorder.ledger k
        where k.stream = 'fills' and k.category = asked.category and k.verdict = 'contradicted'
          and k.part > asked.newest - interval '1 day'
      ) / (instruments * ${dayMs / minuteMs}::float8) as share
    from (
      select category, count(*) as instruments, max(noted_at) as newest
      from recorder.ledger where stream = 'fills' and verdict = 'unsettled' group by category
    ) as asked order by category`.execute(db)
  return rows
}

/** Gives up evidence that rows have not answered for 90 days: its gaps are lost. */
export async function giveUpOldEvidence(db: Kysely<Database>): Promise<void> {
  await callFunction(db, 'recorder.give_up_evidence', '90 days')
}
