import type { Kysely } from 'kysely'
import type { RecorderDatabase } from '../../db/database.js'
import type { Database } from '../../db/schema.js'
import { dayMs, hourMs } from '../../market/values.js'
import { readPointers } from '../iceberg/catalog.js'
import { noteOwner, requireOwnArchive } from './owner.js'
import { type CommitContext, writeHints } from '../iceberg/commit.js'
import { DayWriter, type WrittenDay } from './dayWriter.js'
import { newestNotedDay, noteNewDays, readDueDays, takeMarks, waitForWriters, withArchiveLock } from './state.js'
import {
  archivedTable,
  type ArchivedTable,
  type Day,
  dayEnd,
  dayOf,
  daysBetween,
  dayStart,
  firstTime,
  lastTime,
} from '../layout/tables.js'
import { type ArchiveTarget, DamagedArchive } from '../layout/target.js'
import { isFullDisk } from '../../runtime/disk.js'

interface ArchiveRequest {
  readonly tables: readonly string[]
  /** Hours from the end of a day until it counts as settled. */
  readonly afterHours: number
  /** Days for which superseded snapshots are kept. */
  readonly snapshotDays: number
  /** True to report due days without archiving them. Default false. */
  readonly isDryRun?: boolean
}

interface ArchiveOptions {
  readonly now: () => number
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: (progress: { readonly table: string; readonly day: Day; readonly rows: number }) => void
}

interface ArchiveResult {
  /** Days that are new or have changed. */
  readonly written: readonly WrittenDay[]
  readonly due: readonly { readonly table: string; readonly day: Day }[]
  /** Why due days could not be written, one line each. */
  readonly problems: readonly string[]
}

/**
 * Archives every settled day that is new or has changed. Continues where an earlier call ended or was killed. Throws if
 * another archiver of this database is running, or if a day cannot be written.
 */
export async function runArchive(
  database: RecorderDatabase,
  target: ArchiveTarget,
  request: ArchiveRequest,
  options: ArchiveOptions,
): Promise<ArchiveResult> {
  const { db } = database
  const { now, signal, onProgress } = options
  return withArchiveLock(db, async () => {
    const pointers = await readPointers(db)
    await requireOwnArchive(db, target, pointers)
    const times = { settledAt: now() - request.afterHours * hourMs, now: now() }
    if (request.isDryRun === true) return { written: [], problems: [], due: await tryToNote(db, request, times) }
    await noteOwner(db, target, pointers)
    await noteDue(db, request, times)
    await waitForWriters(db)
    const context: CommitContext = {
      db,
      target,
      folder: await target.stagingFolder(),
      now,
      snapshotDays: request.snapshotDays,
      signal,
    }
    // A process that was killed may have moved pointers without telling readers by path.
    await writeHints(context, pointers)
    const writer = new DayWriter(database, context)
    const due: { table: string; day: Day }[] = []
    const problems: string[] = []
    for (const table of request.tables) {
      for (const { day } of await readDueDays(db, table)) {
        signal?.throwIfAborted()
        due.push({ table, day })
        const onRows = (rows: number) => {
          onProgress?.({ table, day, rows })
          signal?.throwIfAborted()
        }
        onRows(0)
        try {
          await writer.write(archivedTable(table), day, onRows)
        } catch (error) {
          // A damaged day does not affect other days.
          if (!(error instanceof DamagedArchive)) throw explainFullDisk(error, context.folder)
          problems.push(error.message)
        }
      }
    }
    await writer.commit()
    return { written: writer.written, due, problems }
  })
}

/** Notes what is new, and what has changed. */
async function noteDue(db: Kysely<Database>, { tables }: ArchiveRequest, times: Times): Promise<void> {
  for (const name of tables) await noteNewDays(db, name, await newDays(db, archivedTable(name), times))
  await takeMarks(db)
}

/** Lists the days that a run would write, and leaves nothing noted. */
async function tryToNote(db: Kysely<Database>, request: ArchiveRequest, times: Times): Promise<ArchiveResult['due']> {
  const trx = await db.startTransaction().execute()
  try {
    await noteDue(trx, request, times)
    const due: { table: string; day: Day }[] = []
    for (const table of request.tables) for (const { day } of await readDueDays(trx, table)) due.push({ table, day })
    return due
  } finally {
    await trx.rollback().execute()
  }
}

interface Times {
  readonly now: number
  /** Days that end later are not archived yet. */
  readonly settledAt: number
}

/**
 * Finds settled days that were never noted. Writes to a noted day mark it, so only days after the newest one can be new.
 * A table that is archived whole has the day on which it was read.
 */
async function newDays(db: Kysely<Database>, table: ArchivedTable, { now, settledAt }: Times): Promise<Day[]> {
  const newest = await newestNotedDay(db, table.name)
  if (table.timeColumn === undefined) {
    const day = dayOf(now)
    return newest === day ? [] : [day]
  }
  const from = newest === null ? await firstTime(db, table) : dayEnd(newest)
  if (from === null || dayStart(dayOf(from)) + dayMs > settledAt) return []
  const last = await lastTime(db, table)
  return last === null ? [] : daysBetween(from, Math.min(settledAt, dayEnd(dayOf(last))))
}

/** Adds advice to the error of a full disk or quota. Returns any other error unchanged. */
function explainFullDisk(error: unknown, folder: string): unknown {
  if (!isFullDisk(error)) return error
  return new Error(`no space is left on the disk of ${folder}: make room there; the same command goes on from here`, {
    cause: error,
  })
}
