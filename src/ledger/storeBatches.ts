import type { Kysely } from 'kysely'
import { type RejectedRow, rejectedRow } from '../market/rows.js'
import { isProven, type StreamName, streamTraits } from '../market/stream.js'
import { sum } from '../market/values.js'
import { describeDatabaseError, mayPassLater, traitsOf } from '../db/databaseError.js'
import { endSessionsInTheWay } from '../db/locks.js'
import { requireKnownSchema } from '../db/migrate.js'
import type { Database } from '../db/schema.js'
import { type WriteResult, rowsPerStatement } from '../db/writeRows.js'
import { insertRejectedRows } from './rejectedRows.js'
import { type Batch, type FillBatch, missingRows, seriesKey } from './batch.js'
import { type StoredFills, repeatsRejected } from './storeFills.js'
import { isOfMoments, type Written, writerOf } from './writers.js'

export interface StoredBatch extends WriteResult {
  /** Number of rows that were already stored, or that occur twice in the batch. */
  readonly unchanged: number
  readonly rejected: number
  readonly gapsFound: number
  /** Number of candles that arrived in stretches that had been recorded as silent. */
  readonly lateCandles: number
  /** Remarks about the data of the service for a person, one line each. */
  readonly remarks: readonly string[]
}

/**
 * The result of a batch. Rows that the database refused for their content are in `rejected` of a stored batch. If
 * `isStored` is false, the caller keeps the batch and tries again.
 */
export type StoreOutcome =
  ({ readonly isStored: true } & StoredBatch) | { readonly isStored: false; readonly error: unknown }

const attemptsAfterConflict = 4

/**
 * Stores batches of one stream, as many as possible in one transaction. Resolves to the outcome of each. A batch is
 * stored as a whole or not at all. A refused batch does not affect the others. Never rejects.
 */
export async function storeBatches(db: Kysely<Database>, batches: readonly Batch[]): Promise<StoreOutcome[]> {
  const [only] = batches
  if (only === undefined) return []
  if (batches.length === 1) return [await storeOne(db, only)]
  try {
    return (await commit(db, batches)).map((stored) => ({ isStored: true, ...stored }))
  } catch (error) {
    // Does not try the batches one by one if the database is away. They would all fail in the same way.
    const { isPassing, isConflict, isCancelled } = traitsOf(error)
    if ((isPassing && !isConflict) || isCancelled) return batches.map(() => ({ isStored: false, error }))
  }
  // Storing each batch separately shows which one caused the failure.
  const outcomes: StoreOutcome[] = []
  for (const batch of batches) outcomes.push(await storeOne(db, batch))
  return outcomes
}

/** Stores one batch. Rejects if the database cannot take it. */
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
      const { isConflict, isCancelled } = traitsOf(error)
      // The database ended one of two conflicting transactions. The same one may succeed now.
      if (isConflict && attempt < attemptsAfterConflict) continue
      if (isCancelled && isOfMoments(batch.stream) && batch.rows.length > smallPart) return storeHalves(db, batch)
      if (mayPassLater(error)) return { isStored: false, error: await explained(db, error) }
      return rejectBatch(db, batch, error).then(
        (stored) => ({ isStored: true, ...stored }),
        (rejectionError: unknown) => ({ isStored: false, error: rejectionError }),
      )
    }
  }
}

/** A batch with more rows is stored in halves if its statement took too long. */
const smallPart = 100

/**
 * Stores a batch of moments that the database could not take in its time: its rows may be spread over years, each in a
 * part of the table of its own. These rows claim nothing, so a half that is stored and comes again changes nothing.
 */
async function storeHalves(db: Kysely<Database>, batch: Batch): Promise<StoreOutcome> {
  const middle = batch.rows.length >> 1
  const first = await storeOne(db, { ...batch, rows: batch.rows.slice(0, middle) })
  if (!first.isStored) return first
  const { unkept: _, ...rest } = batch
  const second = await storeOne(db, { ...rest, rows: batch.rows.slice(middle), rejected: [] })
  if (!second.isStored) return second
  const inBoth = (name: 'inserted' | 'updated' | 'unchanged' | 'rejected') => first[name] + second[name]
  return {
    ...first,
    inserted: inBoth('inserted'),
    updated: inBoth('updated'),
    unchanged: inBoth('unchanged'),
    rejected: inBoth('rejected'),
  }
}

/** Stores a batch. Rows that the database refuses for their content become rejected rows with its reason. */
async function storeWithoutRefused(db: Kysely<Database>, batch: Batch): Promise<StoredBatch> {
  try {
    return await commitOne(db, batch)
  } catch (error) {
    if (!traitsOf(error).isOfRow || batch.rows.length === 0) throw error
    const { good, refused, leftOut } = await findRefusedRows(db, batch.rows, (trx, rows) =>
      writerOf(batch.stream)(trx, [{ ...batch, rows, provesNothing: true }]),
    )
    const rejected = [...batch.rejected, ...refused.map(({ row, error: reason }) => refusedRow(batch, row, reason))]
    const unkept = (batch.unkept ?? 0) + leftOut
    try {
      const stored = await commitOne(db, { ...batch, rows: good, rejected, unkept, provesNothing: true })
      const lost = `${leftOut} rows of a response ${placeOf(batch)} were left out: the database refuses too many of it`
      return leftOut === 0 ? stored : { ...stored, remarks: [...stored.remarks, lost] }
    } catch (secondError) {
      if (!traitsOf(secondError).isOfRow) throw secondError
      // The rows were refused together, although each was accepted alone. They are kept as text instead of being lost.
      return rejectBatch(db, batch, secondError)
    }
  }
}

/** Keeps all rows of a batch as rejected rows with the reason, because the program cannot store the batch. */
async function rejectBatch(db: Kysely<Database>, batch: Batch, error: unknown): Promise<StoredBatch> {
  const rejected = [...batch.rejected, ...batch.rows.map((row) => refusedRow(batch, row, error))]
  return commitOne(db, { ...batch, rows: [], rejected, provesNothing: true })
}

async function commitOne(db: Kysely<Database>, batch: Batch): Promise<StoredBatch> {
  const [stored] = await commit(db, [batch])
  return stored as StoredBatch
}

/** Commits rows and what they prove, together or not at all. Rejects if a row is refused. */
async function commit(db: Kysely<Database>, batches: readonly Batch[]): Promise<StoredBatch[]> {
  const { stream } = batches[0] as Batch
  const prepared = batches.map(withRepeatsRejected)
  return fitInOneStatement(stream, prepared)
    ? write(db, stream, prepared)
    : db.transaction().execute((trx) => write(trx, stream, prepared))
}

/**
 * Returns true if one statement stores everything or nothing. A transaction takes longer to begin and end than most
 * rows take to store.
 */
function fitInOneStatement(stream: StreamName, batches: readonly Batch[]): boolean {
  if (!batches.every(isPlain)) return false
  // The writer of candles begins its own transaction if it needs one.
  if (stream === 'candles') return batches.length === 1
  const rows = sum(batches.map((batch) => batch.rows.length))
  return stream === 'fills' || (isOfMoments(stream) && rows <= rowsPerStatement)
}

/** Returns true if a batch has no rejected rows, so that one insert stores all of it. */
function isPlain({ rejected, unkept = 0, provesNothing }: Batch): boolean {
  return !provesNothing && rejected.length + unkept === 0
}

async function write(db: Kysely<Database>, stream: StreamName, batches: readonly Batch[]): Promise<StoredBatch[]> {
  const worthWriting = batches.filter(isWorthWriting)
  // All transactions write the series of a stream in the same order, so that two of them cannot deadlock.
  if (isProven(stream)) worthWriting.sort((a, b) => (seriesKey(a) < seriesKey(b) ? -1 : 1))
  const results = worthWriting.length === 0 ? [] : await writerOf(stream)(db, worthWriting)
  const written = new Map(worthWriting.map((batch, index) => [batch, results[index]]))
  const stored: StoredBatch[] = []
  for (const batch of batches) {
    const { rejected, receivedAt } = batch
    if (rejected.length > 0) await insertRejectedRows(db, rejected, receivedAt)
    stored.push(accountOf(batch, written.get(batch) ?? nothingWritten))
  }
  return stored
}

/** Builds the result of one batch: counts of its rows, found gaps, late candles, and remarks. */
function accountOf(batch: Batch, written: Written): StoredBatch {
  const { inserted, updated, gapsFound = 0, lateCandles = 0, conflicting = 0 } = written
  return {
    inserted,
    updated,
    unchanged: batch.rows.length - inserted - updated - conflicting,
    rejected: batch.rejected.length + (batch.unkept ?? 0) + conflicting,
    gapsFound,
    lateCandles,
    remarks: remarksOn(batch, written),
  }
}

function placeOf({ target }: Batch): string {
  const { category, symbol } = target as { readonly category?: string; readonly symbol?: string }
  return ['of', category ?? 'all categories', ...(symbol === undefined ? [] : [symbol])].join(' ')
}

function remarksOn(batch: Batch, { conflicting = 0, storedFillsLeftOut = 0 }: Partial<StoredFills>): string[] {
  const where = placeOf(batch)
  const remarks: string[] = []
  if (conflicting > 0)
    remarks.push(`${conflicting} stored fills ${where} came again with other values; see recorder.rejected_row`)
  if (storedFillsLeftOut > 0)
    remarks.push(`a response ${where} left out ${storedFillsLeftOut} stored fills of its time; it proves nothing`)
  return remarks
}

const withRepeatsRejected = (batch: Batch): Batch =>
  batch.stream === 'fills' ? repeatsRejected(batch as FillBatch, requestOf(batch)) : batch

/** Returns true if a batch has rows, or proves by their absence that no fill or liquidation happened. */
function isWorthWriting(batch: Batch): boolean {
  const { stream, rows, provesNothing } = batch
  return (
    rows.length > 0 || ((stream === 'fills' || stream === 'liquidations') && missingRows(batch) === 0 && !provesNothing)
  )
}

const nothingWritten: WriteResult = { inserted: 0, updated: 0 }

function refusedRow(batch: Batch, row: unknown, reason: unknown): RejectedRow {
  return rejectedRow(requestOf(batch), describeDatabaseError(reason), JSON.stringify(row))
}

function requestOf({ stream, target }: Batch): Parameters<typeof rejectedRow>[0] {
  const parameters = Object.entries(target as Record<string, unknown>).map(([name, value]) => [name, String(value)])
  return {
    operation: streamTraits[stream].operation,
    parameters: Object.fromEntries(parameters) as Record<string, string>,
  }
}

/**
 * Returns the error of a newer schema in place of the given one. A newer program may have changed the schema. That
 * explains nearly any refusal, and has its own remedy. Sessions that keep it waiting are ended and named.
 */
async function explained(db: Kysely<Database>, error: unknown): Promise<unknown> {
  await endSessionsInTheWay(db, error).catch(() => undefined)
  if (traitsOf(error).isPassing) return error
  return requireKnownSchema(db).then(
    () => error,
    (newer: unknown) => (traitsOf(newer).isPassing ? error : newer),
  )
}

interface RefusedRows<Row> {
  readonly good: Row[]
  readonly refused: { readonly row: Row; readonly error: unknown }[]
  /** Number of further rows that were refused, alone or with others. */
  readonly leftOut: number
}

/** Refused rows of a response that are kept as text. */
const maxRefused = 100
/** Parts that are tried of a batch, each in a transaction. A dozen show one refused row. */
const maxTrials = 1_500

/** Finds rows that the database refuses for their content, by trying ever smaller parts. Commits nothing. */
async function findRefusedRows<Row>(
  db: Kysely<Database>,
  rows: readonly Row[],
  write: (trx: Kysely<Database>, part: readonly Row[]) => Promise<unknown>,
): Promise<RefusedRows<Row>> {
  const good = new Set<Row>()
  const refused: { row: Row; error: unknown }[] = []
  let leftOut = 0
  const parts = [rows]
  for (let trials = 0; parts.length > 0; trials++) {
    // Small parts first show why rows are refused. Large ones then bring the most good rows.
    const part = (refused.length < maxRefused ? parts.pop() : parts.shift()) ?? []
    const error = trials < maxTrials ? await refusalOf(db, (trx) => write(trx, part)) : 'untried'
    const [row] = part
    const middle = part.length >> 1
    if (error === null) for (const one of part) good.add(one)
    else if (error === 'untried') leftOut += part.length
    else if (middle > 0) parts.push(part.slice(middle), part.slice(0, middle))
    else if (row !== undefined && refused.length < maxRefused) refused.push({ row, error })
    else leftOut += 1
  }
  return { good: rows.filter((row) => good.has(row)), refused, leftOut }
}

/** Returns why the database refuses rows for their content; null if it takes them. Commits nothing. */
async function refusalOf(db: Kysely<Database>, write: (trx: Kysely<Database>) => Promise<unknown>): Promise<unknown> {
  try {
    return await db.transaction().execute(async (trx) => {
      await write(trx)
      throw new RolledBack()
    })
  } catch (error) {
    if (error instanceof RolledBack) return null
    if (!traitsOf(error).isOfRow) throw error
    return error
  }
}

/** Ends a trial transaction without a commit. */
class RolledBack extends Error {}
