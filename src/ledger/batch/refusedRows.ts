import type { Kysely } from 'kysely'
import { isDataError } from '../../db/databaseError.js'
import type { Database } from '../../db/schema.js'

export interface RefusedRows<Row> {
  readonly good: Row[]
  readonly refused: { readonly row: Row; readonly error: unknown }[]
  /** How many rows were not tried any more. */
  readonly untried: number
}

/** A database that refuses more rows than this refuses them all, as far as anybody can wait for it: each costs a dozen transactions. */
const maxRefused = 100

/** Finds the rows that the database refuses for their content, by trying parts of them; nothing of this is committed. */
export async function findRefusedRows<Row>(
  db: Kysely<Database>,
  rows: readonly Row[],
  write: (trx: Kysely<Database>, part: readonly Row[]) => Promise<unknown>,
): Promise<RefusedRows<Row>> {
  const good: Row[] = []
  const refused: { row: Row; error: unknown }[] = []
  let untried = 0
  const tryPart = async (part: readonly Row[]): Promise<void> => {
    if (refused.length >= maxRefused) {
      untried += part.length
      return
    }
    try {
      await db.transaction().execute(async (trx) => {
        await write(trx, part)
        throw new RolledBack()
      })
    } catch (error) {
      if (error instanceof RolledBack) {
        good.push(...part)
        return
      }
      if (!isDataError(error)) throw error
      const [row] = part
      if (part.length === 1 && row !== undefined) {
        refused.push({ row, error })
        return
      }
      const middle = part.length >> 1
      await tryPart(part.slice(0, middle))
      await tryPart(part.slice(middle))
    }
  }
  await tryPart(rows)
  return { good, refused, untried }
}

/** Ends a transaction that was only a trial. */
class RolledBack extends Error {}
