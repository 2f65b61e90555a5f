import type { Kysely } from 'kysely'
import { type RejectedRow, rejectedRow } from '../market/rejectedRow.js'
import { isProven, streamNames, streamTraits } from '../market/stream.js'
import {
  describeDatabaseError,
  isConflictError,
  isConnectionError,
  isDataError,
  isTimeout,
  isUnavailable,
} from '../db/databaseError.js'
import { requireKnownSchema } from '../db/migrate.js'
import type { Database } from '../db/schema.js'
import { instrumentStream } from '../db/series.js'
import { type WriteResult, rowsPerStatement } from '../db/writeRows.js'
import { insertRejectedRows } from './rejectedRows.js'
import { recordGap } from './gaps.js'
import { type Batch, type FillBatch, isPlain, missingRows, seriesKey } from './batch.js'
import { type StoredFills, withoutRepeats } from './storeFills.js'
import { isOfMoments, type Written, writerOf } from './writers.js'

export interface StoredBatch extends WriteResult {
  readonly rejected: number
  readonly gapsFound: number
  /** Candles that came where the service had been silent before, as if nothing had been traded. */
  readonly turnedUp: number
  /** Remarks for a person about the data that the service sent, one line each. */
  readonly remarks: readonly string[]
}

/**
 * The batch is stored, or rows of it that the database refused for their content are among the rejected ones (`rejected`); or the
 * database could not take it, so that the caller keeps it and tries again.
 */
export type StoreOutcome =
  ({ readonly isStored: true } & StoredBatch) | { readonly isStored: false; readonly error: unknown }

const attemptsAfterConflict = 4

/**
 * Stores any number of batches, as many as possible in one transaction, and says of each what became of it. A batch is stored as
 * a whole or not at all, and those of one series in their order. One that is refused takes no other with it. Never rejects.
 */
export async function storeBatches(db: Kysely<Database>, batches: readonly Batch[]): Promise<StoreOutcome[]> {
  const [only] = batches
  if (only === undefined) return []
  if (batches.length === 1) return [await storeOne(db, only)]
  try {
    return (await commit(db, batches)).map((stored) => ({ isStored: true, ...stored }))
  } catch (error) {
    // One failure is enough when the database is away: the batches are not tried one by one.
    const isAway = (isConnectionError(error) && !isConflictError(error)) || isTimeout(error)
    if (isAway) return batches.map(() => ({ isStored: false, error }))
  }
  // Storing each batch separately shows which one caused the failure.
  const outcomes: StoreOutcome[] = []
  for (const batch of batches) outcomes.push(await storeOne(db, batch))
  return outcomes
}

/** Stores one batch. Rejects when the database could not take it. */
export async function storeBatch(db: Kysely<Database>, batch: Batch): Promise<StoredBatch> {
  const outcome = await storeOne(db, batch)
  if (!outcome.isStored) throw outcome.error
  return outcome
}

async function storeOne(db: Kysely<Database>, batch: Batch): Promise<StoreOutcome> {
  for (let attempt = 1; ; attempt++) {
    try {
      return { isStored: true, ...(await storeWithoutRefused(db, batch)) }
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

/** When the database refuses a row for its content, that goes to the rejected rows with the database's reason. */
async function storeWithoutRefused(db: Kysely<Database>, batch: Batch): Promise<StoredBatch> {
  try {
    return await commitOne(db, batch)
  } catch (error) {
    if (!isDataError(error) || batch.rows.length === 0) throw error
    const { good, refused, untried } = await findRefusedRows(db, batch.rows, (trx, rows) =>
      writerOf(batch.stream)(trx, [{ ...batch, rows, isPart: true }]),
    )
    const rejected = [...batch.rejected, ...refused.map(({ row, error: reason }) => refusedRow(batch, row, reason))]
    const unkept = (batch.unkept ?? 0) + untried
    try {
      return await commitOne(db, { ...batch, rows: good, rejected, unkept, isPart: true })
    } catch (again) {
      if (!isDataError(again)) throw again
      // Refused together although each was taken alone: kept as text rather than lost.
      return rejectBatch(db, batch, again)
    }
  }
}

/** Keeps a batch that the program itself cannot store as rejected rows, with the reason. */
async function rejectBatch(db: Kysely<Database>, batch: Batch, error: unknown): Promise<StoredBatch> {
  const rejected = [...batch.rejected, ...batch.rows.map((row) => refusedRow(batch, row, error))]
  return commitOne(db, { ...batch, rows: [], rejected, isPart: true })
}

async function commitOne(db: Kysely<Database>, batch: Batch): Promise<StoredBatch> {
  const [stored] = await commit(db, [batch])
  return stored as StoredBatch
}

/** Rows, what they prove and what they show to be missing are committed together or not at all. Rejects when a row is refused. */
async function commit(db: Kysely<Database>, batches: readonly Batch[]): Promise<StoredBatch[]> {
  const prepared = batches.map(withRepeatsRejected)
  return areOneStatement(prepared) ? write(db, prepared) : db.transaction().execute((trx) => write(trx, prepared))
}

/**
 * Returns true if one statement stores everything or nothing. Beginning and ending a transaction takes longer than
 * storing most rows.
 */
function areOneStatement(batches: readonly Batch[]): boolean {
  const [first] = batches
  if (first === undefined || batches.some((batch) => !isPlain(batch) || batch.stream !== first.stream)) return false
  const rows = batches.reduce((sum, batch) => sum + batch.rows.length, 0)
  // The writer of candles begins a transaction by itself where it needs one.
  if (first.stream === 'candles') return batches.length === 1
  if (first.stream === 'fills') return rows <= 5 * rowsPerStatement
  return isOfMoments(first.stream) && rows <= rowsPerStatement
}

async function write(db: Kysely<Database>, batches: readonly Batch[]): Promise<StoredBatch[]> {
  const written = new Map<Batch, Written>()
  // In one order of streams, and of series within them, so that two transactions never wait for each other.
  for (const stream of streamNames) {
    const own = batches.filter((batch) => batch.stream === stream && isWorthWriting(batch))
    if (own.length === 0) continue
    if (isProven(stream)) own.sort((a, b) => (seriesKey(a) < seriesKey(b) ? -1 : 1))
    for (const [index, result] of (await writerOf(stream)(db, own)).entries()) written.set(own[index] as Batch, result)
  }
  const stored: StoredBatch[] = []
  for (const batch of batches) {
    const { stream, rejected, gaps, receivedAt } = batch
    if (rejected.length > 0) await insertRejectedRows(db, rejected, receivedAt)
    for (const { range, reason, state = 'lost', ...key } of gaps)
      await recordGap(db, { ...instrumentStream(stream, key), range, reason, state, detectedAt: receivedAt })
    stored.push(accountOf(batch, written.get(batch) ?? nothingWritten))
  }
  return stored
}

/** Builds the result of one batch: counts of its rows, found gaps, late candles, and remarks. */
function accountOf(batch: Batch, written: Written): StoredBatch {
  const { inserted, updated, gapsFound = 0, turnedUp = 0, conflicting = 0 } = written
  return {
    inserted,
    updated,
    unchanged: batch.rows.length - inserted - updated,
    rejected: batch.rejected.length + (batch.unkept ?? 0) + conflicting,
    gapsFound: gapsFound + batch.gaps.length,
    turnedUp,
    remarks: remarksOn(batch, written),
  }
}

function remarksOn({ target }: Batch, { conflicting = 0, hidden = 0 }: Partial<StoredFills>): string[] {
  const { category, symbol } = target as { readonly category?: string; readonly symbol?: string }
  const where = `of ${category ?? ''} ${symbol ?? ''}`
  const remarks: string[] = []
  if (conflicting > 0)
    remarks.push(`${conflicting} stored fills ${where} came again with other values; see recorder.rejected_row`)
  if (hidden > 0) remarks.push(`a response ${where} left out ${hidden} stored fills of its time; it proves nothing`)
  return remarks
}

/** A response may hold a fill twice with different values: one of them is kept as rejected. */
function withRepeatsRejected(batch: Batch): Batch {
  if (batch.stream !== 'fills') return batch
  const { others } = withoutRepeats(batch as FillBatch)
  if (others.length === 0) return batch
  const reason = 'a fill stands in a response twice, with different values'
  return { ...batch, rejected: [...batch.rejected, ...others.map((row) => refusedRow(batch, row, reason))] }
}

/** An empty response says something, too, where rows happen now and then: that none did. */
function isWorthWriting(batch: Batch): boolean {
  const { stream, rows, isPart } = batch
  return rows.length > 0 || ((stream === 'fills' || stream === 'liquidations') && missingRows(batch) === 0 && !isPart)
}

const nothingWritten: WriteResult = { inserted: 0, updated: 0, unchanged: 0 }

function refusedRow(batch: Batch, row: unknown, reason: unknown): RejectedRow {
  const target = Object.entries(batch.target as Record<string, unknown>)
  const operation = streamTraits[batch.stream].operation
  const parameters = Object.fromEntries(target.map(([name, value]) => [name, String(value)]))
  const line = typeof reason === 'string' ? reason : describeDatabaseError(reason)
  return rejectedRow({ operation, parameters }, line, JSON.stringify(row))
}

/** A schema that a newer program has changed while this one runs explains nearly any refusal, and has its own remedy. */
async function explained(db: Kysely<Database>, error: unknown): Promise<unknown> {
  if (isConnectionError(error)) return error
  return requireKnownSchema(db).then(
    () => error,
    (newer: unknown) => (isConnectionError(newer) ? error : newer),
  )
}

interface RefusedRows<Row> {
  readonly good: Row[]
  readonly refused: { readonly row: Row; readonly error: unknown }[]
  /** How many rows were not tried any more. */
  readonly untried: number
}

/** The search for refused rows stops after this many, because each costs a dozen transactions. */
const maxRefused = 100

/** Finds the rows that the database refuses for their content, by trying parts of them; nothing of this is committed. */
async function findRefusedRows<Row>(
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
