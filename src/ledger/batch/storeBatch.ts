import type { Kysely } from 'kysely'
import { type RejectedRow, rejectedRow } from '../../market/rejectedRow.js'
import { operationOf, type StreamName } from '../../market/stream.js'
import type { Series } from '../../db/series.js'
import { addCoverage } from '../proof/coverage.js'
import { describeDatabaseError, isDataError } from '../../db/databaseError.js'
import { recordGap } from '../proof/gaps.js'
import { findRefusedRows } from './refusedRows.js'
import { insertRejectedRows } from '../live/rejectedRows.js'
import type { Database } from '../../db/schema.js'
import { rowsPerStatement } from '../../db/writeRows.js'
import type { WriteResult } from '../../db/writeResult.js'
import { type Batch, type FillBatch, isPlain, missingRows, type ProvenRange, seriesKey } from './batch.js'
import { storeBeginningPages } from './beginningPages.js'
import { storeFollowingPages } from './followingPages.js'
import { NewestPages } from './newestPages.js'
import { storeFillPages, type StoredFills } from './storeFills.js'
import type { StoredCandles } from './storeCandles.js'
import { writerOf } from './writers.js'

export interface StoredBatch extends WriteResult {
  readonly rejected: number
  readonly gapsFound: number
  /** Candles that came where the service had been silent before, as if nothing had been traded. */
  readonly turnedUp: number
}

/**
 * Stores a batch, all of it or nothing. When the database refuses it for the content of a row, the row is looked for and
 * goes to the rejected rows with the database's reason; the others are stored.
 */
export async function storeBatch(db: Kysely<Database>, batch: Batch, newestPages?: NewestPages): Promise<StoredBatch> {
  try {
    return await commitBatch(db, batch, newestPages)
  } catch (error) {
    if (!isDataError(error) || batch.rows.length === 0) throw error
    const { good, refused, untried } = await findRefusedRows(db, batch.rows, (trx, rows) =>
      writerOf(batch.stream)(trx, { ...batch, rows, isPart: true }),
    )
    const rejected = [...batch.rejected, ...refused.map(({ row, error: reason }) => refusedRow(batch, row, reason))]
    const unkept = (batch.unkept ?? 0) + untried
    try {
      return await commitBatch(db, { ...batch, rows: good, rejected, unkept, isPart: true })
    } catch (again) {
      if (!isDataError(again)) throw again
      // Refused together although each was taken alone: kept as text rather than lost.
      const all = batch.rows.map((row) => refusedRow(batch, row, again))
      return commitBatch(db, { ...batch, rows: [], rejected: [...batch.rejected, ...all], isPart: true })
    }
  }
}

/** Keeps a batch that the database or the program refuses for good as rejected rows, with the reason. */
export async function rejectBatch(db: Kysely<Database>, batch: Batch, error: unknown): Promise<StoredBatch> {
  const refused = batch.rows.map((row) => refusedRow(batch, row, error))
  const rejected = [...batch.rejected, ...refused]
  await db.transaction().execute((trx) => insertRejectedRows(trx, rejected, batch.receivedAt))
  return storedBatch(nothingWritten, rejected.length)
}

/**
 * Rows, what they prove and what they show to be missing are committed together or not at all. Rejects when the database
 * refuses a row.
 */
export async function commitBatch(
  db: Kysely<Database>,
  batch: Batch,
  newestPages = nothingKnown,
): Promise<StoredBatch> {
  const { stream, rows, rejected, proven, gaps, receivedAt } = batch
  if (isPlain(batch) && stream === 'fills' && !db.isTransaction) {
    const page = batch as FillBatch
    const stored = (await storePagesAtOnce(db, [page], newestPages)).get(page)
    if (stored !== undefined) return storedBatch(stored)
  }
  if (isPlain(batch) && storedByWriter(batch)) {
    const written: Written = isWorthWriting(batch) ? await writerOf(stream)(db, batch) : nothingWritten
    return storedBatch({ ...written, unchanged: rows.length - written.inserted - written.updated })
  }
  return db.transaction().execute(async (trx) => {
    const written: Written = isWorthWriting(batch) ? await writerOf(stream)(trx, batch) : nothingWritten
    if (rejected.length > 0) await insertRejectedRows(trx, rejected, receivedAt)
    for (const { range, ...key } of proven) await addCoverage(trx, seriesOf(stream, key), [range])
    for (const { range, reason, state = 'lost', ...key } of gaps) {
      await recordGap(trx, { ...seriesOf(stream, key), range, reason, state, detectedAt: receivedAt })
    }
    const unchanged = rows.length - written.inserted - written.updated
    const refused = rejected.length + (batch.unkept ?? 0)
    return storedBatch({ ...written, unchanged }, refused, gaps.length)
  })
}

/** Whether the writer of its stream stores all of it or nothing by itself: beginning and ending a transaction takes longer than most rows. */
function storedByWriter({ stream, rows }: Batch): boolean {
  if (stream === 'candles') return true
  const isOneStatement = stream === 'order_books' || stream === 'rpi_order_books' || stream === 'tickers'
  return isOneStatement && rows.length <= rowsPerStatement
}

/**
 * Several batches of rows and nothing else, as `takeGroup` puts them together, in as few statements as
 * possible: most pages of fills, then all others in one transaction. What books bring is counted with the first of them.
 */
export async function commitGroup(
  db: Kysely<Database>,
  batches: readonly Batch[],
  newestPages = nothingKnown,
): Promise<StoredBatch[]> {
  const pages = batches.filter(({ stream }) => stream === 'fills') as FillBatch[]
  const atOnce = await storePagesAtOnce(db, pages, newestPages)
  const others = batches.filter((batch) => !atOnce.has(batch as FillBatch))
  const written = new Map<Batch, Written>([...atOnce, ...(others.length > 0 ? await writeTogether(db, others) : [])])
  return batches.map((batch) => storedBatch(written.get(batch) ?? nothingWritten))
}

/** Stores pages that need not be judged step by step: those that follow on, and the first ones of their instruments. */
async function storePagesAtOnce(
  db: Kysely<Database>,
  pages: readonly FillBatch[],
  newestPages: NewestPages,
): Promise<Map<FillBatch, StoredFills>> {
  const stored = new Map<FillBatch, StoredFills>()
  const left = (among: readonly FillBatch[]) => among.filter((page) => !stored.has(page))
  const unknown = pages.filter((page) => !newestPages.has(page))
  const take = (taken: ReadonlyMap<FillBatch, StoredFills>) => {
    for (const [page, result] of taken) stored.set(page, result)
  }
  const follow = async () => take(await storeFollowingPages(db, left(pages), newestPages))
  const begin = async () => {
    const perhapsNew = left(unknown)
    if (perhapsNew.length === 0) return
    const begun = await storeBeginningPages(db, perhapsNew)
    newestPages.areLikelyNew = begun.size > 0
    take(begun)
  }
  for (const store of newestPages.areLikelyNew ? [begin, follow] : [follow, begin]) await store()
  return stored
}

async function writeTogether(db: Kysely<Database>, batches: readonly Batch[]): Promise<Map<Batch, Written>> {
  const inStream = (stream: StreamName) => batches.filter((batch) => batch.stream === stream)
  const written = new Map<Batch, Written>()
  return db.transaction().execute(async (trx) => {
    const fills = inStream('fills').filter(isWorthWriting) as FillBatch[]
    if (fills.length > 0) {
      const stored = await storeFillPages(trx, fills)
      for (const [index, batch] of fills.entries()) written.set(batch, stored[index] as StoredFills)
    }
    for (const stream of ['order_books', 'rpi_order_books'] as const) {
      const [first, ...others] = inStream(stream)
      if (first === undefined) continue
      const rows = [first, ...others].flatMap((batch) => batch.rows)
      written.set(first, await writerOf(stream)(trx, { ...first, rows }))
    }
    // In one order everywhere, so that two transactions never wait for each other.
    for (const batch of inStream('candles').toSorted((a, b) => (seriesKey(a) < seriesKey(b) ? -1 : 1)))
      if (isWorthWriting(batch)) written.set(batch, await writerOf('candles')(trx, batch))
    return written
  })
}

/** What a writer says; gaps are found by that of fills, and late candles by that of candles. */
type Written = WriteResult & Partial<StoredFills & StoredCandles>

/** The whole account of a batch: of its rows, and of what came beside them. */
function storedBatch({ gapsFound = 0, turnedUp = 0, ...written }: Written, rejected = 0, gaps = 0): StoredBatch {
  const { inserted, updated, unchanged } = written
  return { inserted, updated, unchanged, rejected, gapsFound: gapsFound + gaps, turnedUp }
}

/** An empty response for fills says something, too: that nothing was traded yet. */
function isWorthWriting(batch: Batch): boolean {
  const { stream, rows, isPart } = batch
  return rows.length > 0 || (stream === 'fills' && missingRows(batch) === 0 && !isPart)
}

function seriesOf(stream: StreamName, key: Omit<ProvenRange, 'range'>): Series {
  return { stream, category: key.category, symbol: key.symbol, type: key.type ?? null, interval: key.interval ?? null }
}

/** For whoever stores no responses one after the other. */
const nothingKnown = new NewestPages()

const nothingWritten: WriteResult = { inserted: 0, updated: 0, unchanged: 0 }

function refusedRow(batch: Batch, row: unknown, error: unknown): RejectedRow {
  const target = Object.entries(batch.target as Record<string, unknown>)
  const operation = operationOf[batch.stream]
  const parameters = Object.fromEntries(target.map(([name, value]) => [name, String(value)]))
  return rejectedRow({ operation, parameters }, describeDatabaseError(error), JSON.stringify(row))
}
