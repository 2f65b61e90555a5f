import { type Kysely, sql } from 'kysely'
import { callFunction, type RecorderDatabase } from '../../db/database.js'
import { traitsOf } from '../../db/databaseError.js'
import type { Database } from '../../db/schema.js'
import { type TimeTable, timeTables } from '../../market/stream.js'
import { addMs, dayMs, type ServiceMs, sum } from '../../market/values.js'
import { counted } from '../../runtime/text.js'
import { dropChunks } from '../../server/timescale/dropChunks.js'
import { hasHypertables, readChunkEnds } from '../../server/timescale/server.js'
import type { ArchiveReader } from './file.js'
import { checkDay, isShown, showOthers } from './checkDay.js'
import { type Pointers, readPointers, shownWithProof } from '../iceberg/catalog.js'
import { writeHints } from '../iceberg/commit.js'
import { requireOwnArchive } from './owner.js'
import { proofTables } from '../layout/proof.js'
import { rowsOfDay, type Snapshot, symbolsOfDay, withSnapshot } from './rows.js'
import {
  type ArchivedDay,
  makeDayDue,
  noteRemovedDay,
  readArchivedDays,
  takeBackMarks,
  withArchiveLock,
} from './state.js'
import {
  archivedTable,
  type ArchivedTable,
  type Day,
  dayEnd,
  dayOf,
  dayStart,
  daysBetween,
  firstTime,
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
      const timeTable = timeTables.find((one) => one.name === name)
      const first = timeTable && (await firstTime(database.db, archivedTable(name), { withProof: false }))
      if (timeTable === undefined || first === null || first === undefined) continue
      const cutoff = addMs(options.now(), -retentionDays * dayMs)
      // Chunks are removed whole. Reading days of a chunk that has not ended would gain nothing.
      const until = isHypertable ? ((await readChunkEnds(database.db, name, cutoff)).at(-1) ?? 0) : cutoff
      const work = new TableRemoval(database, { target, signal }, pointers, archivedTable(name), isHypertable)
      const { what, end, stays } = await work.remove(timeTable, daysBetween(first, until))
      if (what !== null && end !== null) removed.push(`removed ${what} of market.${name} from before ${dayOf(end)}`)
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
  /** Number of removed rows or chunks, as text for a message; null if none were removed. */
  readonly what: string | null
  /** End of the last removed day; null if no day was safe. */
  readonly end: ServiceMs | null
  /** The first day that is not safe in the archive. */
  readonly stays: Kept | null
}

/** A day whose rows were compared with the archive. Nothing of it may change before its removal. */
interface ComparedDay {
  readonly noted: ArchivedDay
  readonly symbols: ReadonlyMap<string, readonly string[]>
  readonly rows: string
  readonly proof: string
}

/** Thrown to roll back the removal of a day that changed after it was compared. */
class Changed extends Error {
  constructor(readonly day: Day) {
    super('its rows changed while days were compared')
  }
}

class TableRemoval {
  constructor(
    private readonly database: RecorderDatabase,
    private readonly reader: ArchiveReader,
    private readonly pointers: Pointers,
    private readonly table: ArchivedTable,
    private readonly isHypertable: boolean,
  ) {}

  /** Removes the days that are safe in the archive, from the oldest up to the first one that is not. */
  async remove(timeTable: TimeTable, days: readonly Day[]): Promise<Removed> {
    const { db } = this.database
    const known = await readArchivedDays(db, this.table.name)
    const compared: ComparedDay[] = []
    let rows = 0
    let stays: Kept | null = null
    let end: ServiceMs | null = null
    for (const day of days) {
      this.reader.signal?.throwIfAborted()
      const found = await this.#compare(day, known.get(day))
      if (found === null) {
        end = dayEnd(day)
        continue
      }
      if ('reason' in found) {
        stays = found
        break
      }
      if (this.isHypertable) compared.push(found)
      else {
        const removed = await this.#try(day, () => this.#deleteDay(found))
        if (typeof removed !== 'number') {
          stays = removed
          break
        }
        rows += removed
      }
      end = dayEnd(day)
    }
    if (!this.isHypertable) return { what: rows === 0 ? null : counted(rows, 'row'), end, stays }
    return this.#dropChunks(timeTable, compared, { safeUntil: end, first: stays })
  }

  async #dropChunks(
    { name }: TimeTable,
    compared: ComparedDay[],
    { safeUntil, first }: { readonly safeUntil: ServiceMs | null; readonly first: Kept | null },
  ): Promise<Removed> {
    // Only whole chunks are removed. The claims of safe days in a chunk that stays are kept with their rows.
    const ends = safeUntil === null ? [] : await readChunkEnds(this.database.db, name, safeUntil)
    let stays = first
    let end: ServiceMs | null = null
    let chunks = 0
    // Chunks are dropped day by day. Each takes several locks, and the server lacks room for those of a year at once.
    for (const next of new Map(ends.map((one) => [dayOf(one - 1), one])).values()) {
      this.reader.signal?.throwIfAborted()
      const own = compared.filter(({ noted: { day } }) => dayStart(day) < next && dayEnd(day) <= next)
      const dropped = await this.#try(own[0]?.noted.day ?? dayOf(next - 1), () => this.#dropIfSame(next, own))
      if (typeof dropped !== 'number') {
        stays = dropped
        break
      }
      compared.splice(0, own.length)
      chunks += dropped
      end = next
    }
    return { what: chunks === 0 ? null : counted(chunks, 'chunk'), end, stays }
  }

  async #try(day: Day, work: () => Promise<number>): Promise<number | Kept> {
    try {
      return await work()
    } catch (error) {
      if (error instanceof Changed) return { day: error.day, reason: error.message, isDue: true }
      return keptByOthers(error, day)
    }
  }

  /** Compares a day with the archive. Resolves to null if the database has no rows of it. */
  async #compare(day: Day, noted: ArchivedDay | undefined): Promise<ComparedDay | Kept | null> {
    const { table, reader } = this
    const compare = async (snapshot: Snapshot): Promise<ComparedDay | Kept | null> => {
      const symbols = await symbolsOfDay(snapshot, table, day)
      if (symbols.size === 0 && (noted === undefined || noted.isRemoved)) return null
      if (noted === undefined || !noted.isArchived) return { day, reason: 'it is not in the archive', isDue: false }
      const range = { from: day, to: dayOf(dayEnd(day)) }
      const shown = await shownWithProof(reader.target, table.name, this.pointers, range)
      if (!isShown({ ...noted, shown })) return { day, reason: showOthers, isDue: true }
      const difference = await checkDay(reader, table, { ...noted, shown }, snapshot)
      if (difference !== null) return { day, reason: `the archive has something else: ${difference}`, isDue: true }
      const [from, to] = [new Date(dayStart(day)), new Date(dayEnd(day))]
      const [[proof] = []] = await snapshot.query('select recorder.proof_of_day($1, $2, $3)', [table.name, from, to])
      return { noted, symbols, rows: await dayFingerprint(snapshot, table, day), proof: proof ?? '' }
    }
    try {
      return await withSnapshot(this.database, compare, { table, signal: reader.signal })
    } catch (error) {
      if (error instanceof DamagedArchive) return { day, reason: error.message, isDue: true }
      return keptByOthers(error, day)
    }
  }

  /** Deletes the rows of a day series by series, because a plain table has no index on the time alone. */
  async #deleteDay(compared: ComparedDay): Promise<number> {
    const { day } = compared.noted
    return this.database.db.transaction().execute(async (trx) => {
      await maxWait.execute(trx)
      await this.#keepMoments(trx, day)
      const [time, from, to] = [
        sql.ref(`t.${this.table.timeColumn ?? ''}`),
        new Date(dayStart(day)),
        new Date(dayEnd(day)),
      ]
      const gone: Fingerprint[] = []
      for (const [category, named] of compared.symbols) {
        for (const symbol of named) {
          const { rows } = await sql<Fingerprint>`
            with gone as (
              delete from ${sql.table(`market.${this.table.name}`)} t
              where t.category = ${category}::market.category and t.symbol = ${symbol}
                and ${time} >= ${from}::timestamptz and ${time} < ${to}::timestamptz
              returning t.*)
            select count(*) as rows, ${sql.raw(hashOf('t'))}::text as hash from gone t
            where ${sql.raw(this.table.isSettled)}`.execute(trx)
          gone.push(...rows)
        }
      }
      const rows = sum(gone.map((one) => one.rows))
      const hash = gone.reduce((total, one) => total + BigInt(one.hash), 0n)
      if (`${rows} ${hash}` !== compared.rows) throw new Changed(day)
      await this.#makeFinal(trx, compared)
      return rows
    })
  }

  /** Makes final what was recorded of a day. Throws if that has changed since the day was compared. */
  async #makeFinal(trx: Kysely<Database>, { noted, proof }: ComparedDay): Promise<void> {
    const { day, files } = noted
    const { name } = this.table
    const found = await callFunction<string>(
      trx,
      'recorder.make_final',
      name,
      new Date(dayStart(day)),
      new Date(dayEnd(day)),
    )
    if (found !== proof) throw new Changed(day)
    const staysOwned = (table: string) => proofTables.some((one) => one.name === table && one.isOwnedForGood)
    await noteRemovedDay(trx, name, {
      day,
      files: files.map((file) => ({ ...file, isFinal: !staysOwned(file.table) })),
    })
    await takeBackMarks(trx, name)
  }

  /** Makes final the moments of rows that nothing proves: later pages and repairs join there. */
  async #keepMoments(trx: Kysely<Database>, day: Day): Promise<void> {
    await callFunction(trx, 'recorder.keep_moments', this.table.name, new Date(dayStart(day)), new Date(dayEnd(day)))
  }

  /**
   * Drops the chunks that end by a time. Throws `Changed` and drops nothing if rows were added or changed after they
   * were compared with the archive. Resolves to the number of dropped chunks.
   */
  async #dropIfSame(before: ServiceMs, compared: readonly ComparedDay[]): Promise<number> {
    const { name, timeColumn = '' } = this.table
    const expected = new Map(compared.map(({ noted, rows }) => [noted.day, rows]))
    const requireSameRows = async (trx: Kysely<Database>) => {
      const end = new Date(before)
      const listChunks = async () => {
        const { rows } = await sql<{ chunk: string }>`
          select public.show_chunks(${`market.${name}`}::regclass, older_than => ${end}::timestamptz)::text as chunk
          order by 1`.execute(trx)
        return rows.map(({ chunk }) => chunk)
      }
      const requireSame = async () => {
        const time = sql.ref(`t.${timeColumn}`)
        const { rows } = await sql<{ day: number } & Fingerprint>`
          select date_bin('1 day', ${time}, timestamptz 'epoch') as day, count(*) as rows, ${sql.raw(hashOf('t'))}::text as hash
          from ${sql.table(`market.${name}`)} t
          where ${time} < ${end}::timestamptz and ${sql.raw(this.table.isSettled)} group by 1`.execute(trx)
        const found = new Map(rows.map(({ day, rows: count, hash }) => [dayOf(day), `${count} ${hash}`]))
        const days = [...new Set([...expected.keys(), ...found.keys()])].toSorted()
        const changed = days.find((day) => (expected.get(day) ?? nothing) !== (found.get(day) ?? nothing))
        if (changed !== undefined) throw new Changed(changed)
      }
      const locked = await listChunks()
      const lockChunks = async (mode: 'share row' | 'access') => {
        for (const chunk of locked)
          await sql`lock table ${sql.raw(chunk)} in ${sql.raw(mode)} exclusive mode`.execute(trx)
      }
      // The lock waits for current writers of a chunk to end, and keeps new writers out.
      await lockChunks('share row')
      await requireSame()
      // This lock prevents new chunks. It is held only briefly, because recording may need a new chunk.
      await sql`lock table only ${sql.table(`market.${name}`)} in share update exclusive mode`.execute(trx)
      if ((await listChunks()).join() !== locked.join()) await requireSame()
      for (const { noted } of compared) await this.#keepMoments(trx, noted.day)
      // While somebody reads a chunk it cannot be dropped. Its claims then stay, too.
      await lockChunks('access')
      // A writer may hold a row of the ledger while it waits for a lock above, so this wait is short.
      await sql`set local lock_timeout = '1s'`.execute(trx)
      for (const one of compared) await this.#makeFinal(trx, one)
    }
    const { signal } = this.reader
    return dropChunks(this.database.db, name, before, { prepare: requireSameRows, signal })
  }
}

/** Returns why a day stays if others were at work on it. Throws any other error. */
function keptByOthers(error: unknown, day: Day): Kept {
  const { isConflict, isLocked } = traitsOf(error)
  if (!isConflict && !isLocked) throw error
  return { day, reason: 'somebody else was reading or writing it at the same time', isDue: false }
}

/** Limits the wait for a lock. Recording must not wait for long, and a reader may keep a transaction open. */
const maxWait = sql`set local lock_timeout = '10s'`

interface Fingerprint {
  readonly rows: number
  readonly hash: string
}

/** SQL that changes with any value of any row. It must be fast, because tables stay locked: a microsecond a row. */
const hashOf = (alias: string) => `coalesce(sum(hash_record_extended(${alias}, 0)), 0)`
const nothing = '0 0'

async function dayFingerprint(snapshot: Snapshot, table: ArchivedTable, day: Day): Promise<string> {
  const { sql: rows, parameters } = rowsOfDay(table, day)
  const [[found] = []] = await snapshot.query(
    `select count(*)::text || ' ' || ${hashOf('t')}::text from ${rows}`,
    parameters,
  )
  return found ?? ''
}
