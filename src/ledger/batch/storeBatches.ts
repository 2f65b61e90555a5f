import type { Kysely } from 'kysely'
import { isConflictError, isConnectionError, isUnavailable } from '../../db/databaseError.js'
import { requireKnownSchema } from '../../db/migrate.js'
import type { Database } from '../../db/schema.js'
import type { Batch } from './batch.js'
import { rejectBatch, storeBatch, type StoredBatch } from './storeBatch.js'

/**
 * The batch is stored, or rows of it that the database refused for their content are among the rejected ones (`rejected`); or the
 * database could not take it, so that the caller keeps it and tries again.
 */
export type StoreOutcome =
  ({ readonly isStored: true } & StoredBatch) | { readonly isStored: false; readonly error: unknown }

const attemptsAfterConflict = 4

/**
 * Stores any number of batches and says of each what became of it. A batch is stored as a whole or not at all, and those of one
 * series in their order. Never rejects.
 */
export async function storeBatches(db: Kysely<Database>, batches: readonly Batch[]): Promise<StoreOutcome[]> {
  const outcomes: StoreOutcome[] = []
  for (const batch of batches) outcomes.push(await storeOne(db, batch))
  return outcomes
}

async function storeOne(db: Kysely<Database>, batch: Batch): Promise<StoreOutcome> {
  for (let attempt = 1; ; attempt++) {
    try {
      return { isStored: true, ...(await storeBatch(db, batch)) }
    } catch (error) {
      // Two transactions got into each other's way: the database has ended one of them, which may try again.
      if (isConflictError(error) && attempt < attemptsAfterConflict) continue
      if (isUnavailable(error)) return { isStored: false, error: await explained(db, error) }
      return rejectBatch(db, batch, error).then(
        (stored) => ({ isStored: true, ...stored }),
        (again: unknown) => ({ isStored: false, error: again }),
      )
    }
  }
}

/** A schema that a newer program has changed while this one runs explains nearly any refusal, and has its own remedy. */
async function explained(db: Kysely<Database>, error: unknown): Promise<unknown> {
  if (isConnectionError(error)) return error
  return requireKnownSchema(db).then(
    () => error,
    (newer: unknown) => (isConnectionError(newer) ? error : newer),
  )
}
