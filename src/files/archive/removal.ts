import { type Kysely, sql } from 'kysely'
import { callFunction, type RecorderDatabase } from '../../db/database.js'
import { traitsOf } from '../../db/databaseError.js'
import type { Database } from '../../db/schema.js'
import { addMs, dayMs, type ServiceMs } from '../../market/values.js'
import { counted } from '../../runtime/text.js'
import { dropChunks } from '../../server/timescale/retention.js'
import { hasHypertables, readChunkEnds } from '../../server/timescale/server.js'
import type { ArchiveReader } from './file.js'
import { checkDay } from './verify.js'
import { type Pointers, readPointers, type ShownFile, shownWithProof } from '../iceberg/catalog.js'
import { writeHints } from '../iceberg/commit.js'
import { requireOwnArchive } from './owner.js'
import { type Snapshot, symbolsOfDay, withSnapshot } from './rows.js'
import {
  type ArchivedDay,
  makeDayDue,
  noteRemovedDay,
  oldestMark,
  readArchivedDays,
  takeBackMarks,
  takeMarks,
  waitForWriters,
  withArchiveLock,
} from './state.js'
import {
  archivedTable,
  type ArchivedTable,
  type Day,
  dayEnd,
  dayOf,
  daysBetween,
  dayStart,
  firstTime,
  proofTables,
} from '../layout/tables.js'
import { type ArchiveTarget, DamagedArchive } from '../layout/target.js'

interface RemovalResult {
  /** Describes the removed rows, one line per table. */
  readonly removed: readonly string[]
  /** The oldest day of each table that is past its age but must stay, and why. */
  readonly kept: readonly { readonly table: string; readonly day: Day; readonly reason: string }[]
}

/**
 * Removes rows past their age in days, table by table, and day by day from the oldest. A day is removed only if its
 * files were just read, and have exactly the rows of the database. The same transaction makes final what was recorded
 * there. The first day that is not safe stays, and all days after it.
 */
export async function removeArchived(
  database: RecorderDatabase,
  target: ArchiveTarget,
  tables: readonly { readonly name: string; readonly retentionDays: number }[],
  options: { readonly now: () => ServiceMs; readonly signal?: AbortSignal },
): Promise<RemovalResult> {
  const { signal } = options
  return withArchiveLock(database.db, async () => {
    const pointers = await readPointers(database.db)
    await requireOwnArchive(database.db, target, pointers)
    // A process that was killed may have moved pointers without telling readers by path.
    await writeHints({ target, folder: await target.stagingFolder() }, pointers)
    const removed: string[] = []
    const kept: (Kept & { table: string })[] = []
    const isHypertable = await hasHypertables(database.db)
    for (const { name, retentionDays } of tables) {
      const work = new TableRemoval(database, { target, signal }, pointers, archivedTable(name), isHypertable)
      const { count, end, stays } = await work.remove(addMs(options.now(), -retentionDays * dayMs))
      const what = counted(count, isHypertable ? 'chunk' : 'row')
      if (count > 0 && end !== null) removed.push(`removed ${what} of market.${name} from before ${dayOf(end)}`)
      if (stays === null) continue
      kept.push({ table: name, ...stays })
      // Without this the day would count as archived, and would stay for ever.
      if (stays.isDue) await makeDayDue(database.db, name, stays.day)
    }
    return { removed, kept: kept.map(({ table, day, reason }) => ({ table, day, reason })) }
  })
}

interface Kept {
  readonly day: Day
  readonly reason: string
  /** True if archiving the day again would make it safe. */
  readonly isDue: boolean
}

interface Removed {
  /** Number of removed rows or chunks. */
  readonly count: number
  /** End of what is safe; null if no day was. */
  readonly end: ServiceMs | null
  /** The first day that is not safe in the archive. */
  readonly stays: Kept | null
}

/** A day whose rows were compared with the archive. Nothing of it may change before its removal. */
interface ComparedDay {
  readonly noted: ArchivedDay
  readonly symbols: ReadonlyMap<string, readonly string[]>
}

/** Thrown for a day that must stay. It rolls back a removal. */
class Stays extends Error {
  constructor(readonly kept: Kept) {
    super(kept.reason)
  }
}

class TableRemoval {
  /** Files that the tables show of the month that is being compared. */
  #shown: { readonly month: string; readonly files: readonly ShownFile[] } | undefined

  constructor(
    private readonly database: RecorderDatabase,
    private readonly reader: ArchiveReader,
    private readonly pointers: Pointers,
    private readonly table: ArchivedTable,
    private readonly isHypertable: boolean,
  ) {}

  /** Removes what is safe in the archive and ends by a time, from the oldest up to the first day that is not safe. */
  async remove(cutoff: ServiceMs): Promise<Removed> {
    const { db } = this.database
    const { name } = this.table
    const findFirst = () => firstTime(db, this.table, { withProof: false })
    const first = await findFirst()
    const known = await readArchivedDays(db, name)
    let [count, end]: [number, ServiceMs | null] = [0, null]
    if (first === null) return { count, end, stays: null }
    // Chunks are dropped day by day. Each takes several locks, and the server lacks room for those of a year at once.
    const lastDays = this.isHypertable
      ? (await readChunkEnds(db, name, cutoff)).map((one) => dayOf(one - 1))
      : daysBetween(first, cutoff)
    for (const last of new Set(lastDays)) {
      const until = dayEnd(last)
      // A chunk of hours may have ended before its day.
      if (until > cutoff) break
      let day = last
      try {
        // From here on, whoever writes to one of these days leaves a mark.
        await takeMarks(db)
        await waitForWriters(db)
        // A chunk may reach over midnight, so every day that still has rows is compared.
        const from = this.isHypertable ? await findFirst() : dayStart(last)
        const compared: ComparedDay[] = []
        for (day of from === null ? [] : daysBetween(from, until)) {
          this.reader.signal?.throwIfAborted()
          const found = await this.#compare(day, known.get(day))
          if (found !== null) compared.push(found)
        }
        day = compared[0]?.noted.day ?? day
        count += this.isHypertable ? await this.#dropIfSame(until, compared) : await this.#deleteDays(compared)
      } catch (error) {
        return { count, end, stays: keptBy(error, day) }
      }
      end = until
    }
    return { count, end, stays: null }
  }

  /** Compares a day with the archive. Resolves to null if the database has no rows of it. Throws if it must stay. */
  #compare(day: Day, noted: ArchivedDay | undefined): Promise<ComparedDay | null> {
    const { table, reader } = this
    const compare = async (snapshot: Snapshot): Promise<ComparedDay | null> => {
      const symbols = await symbolsOfDay(snapshot, table, day)
      if (symbols.size === 0 && (noted === undefined || noted.isRemoved)) return null
      if (noted?.isArchived !== true) throw new Stays({ day, reason: 'it is not in the archive', isDue: false })
      await checkDay(reader, table, { ...noted, shown: await this.#shownFiles(day) }, snapshot)
      return { noted, symbols }
    }
    return withSnapshot(this.database, compare, { table, signal: reader.signal })
  }

  /** Lists the files that the tables show of a day. They are read once a month: a damaged month holds up no other. */
  async #shownFiles(day: Day): Promise<readonly ShownFile[]> {
    const month = day.slice(0, 7)
    if (this.#shown?.month !== month) {
      // No day of the month is later.
      const range = { from: `${month}-01`, to: `${month}-32` }
      this.#shown = { month, files: await shownWithProof(this.reader.target, this.table.name, this.pointers, range) }
    }
    return this.#shown.files.filter((file) => file.day === day)
  }

  /** Deletes the rows of a day series by series, because a plain table has no index on the time alone. */
  async #deleteDays([compared]: readonly ComparedDay[]): Promise<number> {
    if (compared === undefined) return 0
    const { day } = compared.noted
    return this.database.db.transaction().execute(async (trx) => {
      await maxWait.execute(trx)
      await this.#keepMoments(trx, day)
      const { name, timeColumn = '' } = this.table
      const [time, from, to] = [sql.ref(timeColumn), new Date(dayStart(day)), new Date(dayEnd(day))]
      let count = 0
      for (const [category, named] of compared.symbols) {
        for (const symbol of named) {
          const { numAffectedRows } = await sql`
            delete from ${sql.table(`market.${name}`)}
            where category = ${category}::market.category and symbol = ${symbol}
              and ${time} >= ${from}::timestamptz and ${time} < ${to}::timestamptz`.execute(trx)
          count += Number(numAffectedRows)
        }
      }
      await this.#makeFinal(trx, compared)
      await this.#requireUnchanged(trx, dayEnd(day))
      return count
    })
  }

  /** Throws if somebody has written to a day before a time since it was compared. Marks of this transaction go. */
  async #requireUnchanged(trx: Kysely<Database>, until: ServiceMs): Promise<void> {
    const { name } = this.table
    await takeBackMarks(trx, name)
    const day = await oldestMark(trx, name, dayOf(until))
    if (day !== null) throw new Stays({ day, reason: 'its rows changed while days were compared', isDue: true })
  }

  /** Makes final what was recorded of a day. */
  async #makeFinal(trx: Kysely<Database>, { noted: { day, files } }: ComparedDay): Promise<void> {
    const { name } = this.table
    await callFunction(trx, 'recorder.end_claims', name, new Date(dayStart(day)), new Date(dayEnd(day)), true)
    const staysOwned = (table: string) => proofTables.some((one) => one.name === table && one.isOwnedForGood)
    await noteRemovedDay(trx, name, {
      day,
      files: files.map((file) => ({ ...file, isFinal: !staysOwned(file.table) })),
    })
  }

  /** Makes final the moments of rows that nothing proves: later pages and repairs join there. */
  async #keepMoments(trx: Kysely<Database>, day: Day): Promise<void> {
    await callFunction(trx, 'recorder.keep_moments', this.table.name, new Date(dayStart(day)), new Date(dayEnd(day)))
  }

  /**
   * Drops the chunks that end by a time. Throws and drops nothing if somebody has written to a day of them since it was
   * compared with the archive. Resolves to the number of dropped chunks.
   */
  #dropIfSame(before: ServiceMs, compared: readonly ComparedDay[]): Promise<number> {
    const { name } = this.table
    const prepare = async (trx: Kysely<Database>) => {
      const { rows: chunks } = await sql<{ chunk: string }>`
        select public.show_chunks(${`market.${name}`}::regclass, older_than => ${new Date(before)}::timestamptz)::text as chunk
        order by 1`.execute(trx)
      const lockChunks = async (mode: 'share row' | 'access') => {
        for (const { chunk } of chunks)
          await sql`lock table ${sql.raw(chunk)} in ${sql.raw(mode)} exclusive mode`.execute(trx)
      }
      // The lock waits for current writers of a chunk to end, and keeps new writers out.
      await lockChunks('share row')
      await this.#requireUnchanged(trx, before)
      // This lock prevents new chunks. It is held only briefly, because recording may need a new chunk.
      await sql`lock table only ${sql.table(`market.${name}`)} in share update exclusive mode`.execute(trx)
      for (const { noted } of compared) await this.#keepMoments(trx, noted.day)
      // While somebody reads a chunk it cannot be dropped. Its claims then stay, too.
      await lockChunks('access')
      // A writer may hold a row of the ledger while it waits for a lock above. This wait is over before PostgreSQL sees a
      // deadlock after a second and may end the writer.
      await sql`set local lock_timeout = '250ms'`.execute(trx)
      for (const one of compared) await this.#makeFinal(trx, one)
      await this.#requireUnchanged(trx, before)
    }
    return dropChunks(this.database.db, name, before, { prepare, signal: this.reader.signal })
  }
}

/** Returns why a day stays. Throws any error that is no reason for it. */
function keptBy(error: unknown, day: Day): Kept {
  if (error instanceof Stays) return error.kept
  if (error instanceof DamagedArchive) return { day, reason: error.message, isDue: true }
  const { isConflict, isLocked } = traitsOf(error)
  if (!isConflict && !isLocked) throw error
  return { day, reason: 'somebody else was reading or writing it at the same time', isDue: false }
}

/** Limits the wait for a lock. Recording must not wait for long, and a reader may keep a transaction open. */
const maxWait = sql`set local lock_timeout = '10s'`
