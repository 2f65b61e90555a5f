import type { Kysely } from 'kysely'
import type { RejectedRow } from '../market/rejectedRow.js'
import { addCoverage } from '../store/coverage.js'
import { describeDatabaseError, isDataError } from '../store/databaseError.js'
import { recordGap } from '../store/gaps.js'
import { insertRejectedRows } from '../store/rejectedRows.js'
import type { Database } from '../store/schema.js'
import type { WriteResult } from '../store/writeResult.js'
import type { Batch } from './batch.js'
import { streamNamed } from './streams.js'

export interface StoredBatch extends WriteResult {
  readonly rejected: number
}

/**
 * Stores a batch. When the database refuses it for the content of a row, the batch is halved until that row stands alone;
 * it then goes to the rejected rows with the database's reason. What the batch proves is committed last, so a crash
 * half-way leaves rows without a claim and never a claim without rows.
 */
export async function storeBatch(db: Kysely<Database>, batch: Batch): Promise<StoredBatch> {
  try {
    return await commit(db, batch)
  } catch (error) {
    if (!isDataError(error)) throw error
    if (batch.rows.length <= 1) {
      const refused = batch.rows.map((row) => refusedRow(batch, row, error))
      return commit(db, { ...batch, rows: [], isPart: true, rejected: [...batch.rejected, ...refused] })
    }
    const middle = batch.rows.length >> 1
    const part = { ...batch, isPart: true, rejected: [], proven: [], gaps: [] }
    const first = await storeBatch(db, { ...part, rows: batch.rows.slice(0, middle) })
    const second = await storeBatch(db, { ...part, rows: batch.rows.slice(middle) })
    const rest = await commit(db, { ...batch, rows: [], isPart: true })
    return [first, second, rest].reduce(add)
  }
}

/** Rows, what they prove and what they show to be missing are committed together or not at all. */
async function commit(db: Kysely<Database>, batch: Batch): Promise<StoredBatch> {
  const { stream, rows, rejected, proven, gaps, receivedAt } = batch
  return db.transaction().execute(async (trx) => {
    const written = rows.length > 0 ? await streamNamed(stream).write(trx, batch) : nothingWritten
    if (rejected.length > 0) await insertRejectedRows(trx, rejected, receivedAt)
    for (const { category, symbol, range } of proven) {
      await addCoverage(trx, { stream, category, symbol, type: null, interval: null }, [range])
    }
    for (const { category, symbol, range, reason } of gaps) {
      await recordGap(trx, { stream, category, symbol, type: null, interval: null, range, reason, state: 'lost' })
    }
    return { ...written, rejected: rejected.length }
  })
}

const nothingWritten: WriteResult = { inserted: 0, updated: 0, unchanged: 0 }

function refusedRow(batch: Batch, row: unknown, error: unknown): RejectedRow {
  const target = Object.entries(batch.target as Record<string, unknown>)
  return {
    operation: streamNamed(batch.stream).operation,
    parameters: Object.fromEntries(target.map(([name, value]) => [name, String(value)])),
    reason: describeDatabaseError(error),
    raw: JSON.stringify(row),
  }
}

function add(a: StoredBatch, b: StoredBatch): StoredBatch {
  return {
    inserted: a.inserted + b.inserted,
    updated: a.updated + b.updated,
    unchanged: a.unchanged + b.unchanged,
    rejected: a.rejected + b.rejected,
  }
}
