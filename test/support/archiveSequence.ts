import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { adoptArchive } from '../../src/files/archive/adopt.js'
import { removeArchived } from '../../src/files/archive/removal.js'
import { pruneArchive, verifyArchive } from '../../src/files/archive/verify.js'
import { readPointers } from '../../src/files/iceberg/catalog.js'
import type { ArchiveTarget } from '../../src/files/layout/target.js'
import { type Batch, withoutOldRows } from '../../src/ledger/batch.js'
import { storeBatch } from '../../src/ledger/storeBatches.js'
import { storePastFills } from '../../src/ledger/storePastFills.js'
import { openDatabase, type RecorderDatabase } from '../../src/db/database.js'
import { asAdmin, closeDatabase, databaseUrl, dropDatabase } from './databaseServer.js'
import { archiveAll, hintsOf, temporaryArchive } from './archives.js'
import { ArchiveMarket, candleSeries, type FillSeries, fillSeries } from './archiveMarket.js'
import { archivedRows, archiveViolations, type Truth } from './archiveTruth.js'
import { batchOf } from './batches.js'
import { randomFrom } from './pacing.js'
import { sum } from '../../src/market/values.js'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const kept = { fills: 2, candles: 2 }
const tables = Object.entries(kept).map(([name, retentionDays]) => ({ name, retentionDays }))
const pageRows = 20

export interface SequenceServer {
  /** Address of a database from which others can be created and dropped. */
  readonly adminUrl: string
  /** A migrated database to clone, which nobody can open. */
  readonly template: string
  /** Option with which `create database` clones fastest; empty for the default. */
  readonly strategy: string
}

/**
 * Does things to an archive in an order that is drawn from a seed: rows come, also late ones and corrections, gaps are
 * repaired, archivers run, are killed and meet, old rows are removed, dumps are made and brought back. Resolves to what
 * was violated first; null if nothing was.
 */
export async function runSequence(server: SequenceServer, seed: number, steps: number): Promise<string | null> {
  const sequence = new Sequence(server, seed, await temporaryArchive())
  try {
    return await sequence.run(steps)
  } finally {
    await sequence.drop()
  }
}

class Sequence {
  readonly #server: SequenceServer
  readonly #random: () => number
  readonly #market: ArchiveMarket
  readonly #name: string
  readonly #truth: Truth = { fills: new Map(), candles: new Map(), final: new Map(), left: new Set(), files: new Map() }
  readonly #archive: Awaited<ReturnType<typeof temporaryArchive>>
  #database: RecorderDatabase | undefined
  #databases = 0
  #current = ''
  /** Whose archive runs were refused, until it is adopted. */
  #isCopy = false
  #dump: { readonly name: string; readonly truth: Pick<Truth, 'fills' | 'candles'> } | undefined
  readonly #done: string[] = []
  readonly #shares: number[] = []
  #violated: string | null = null

  constructor(server: SequenceServer, seed: number, archive: Awaited<ReturnType<typeof temporaryArchive>>) {
    this.#archive = archive
    this.#server = server
    this.#random = randomFrom(seed)
    this.#market = new ArchiveMarket(this.#random)
    this.#name = `recorder_test_sequence_${randomBytes(4).toString('hex')}`
  }

  async run(steps: number): Promise<string | null> {
    await this.#clone(this.#server.template)
    await sql`insert into recorder.service (base_url) values ('https://sequence.example')`.execute(this.#db)
    for (let step = 0; step < steps; step++) {
      const [name, action] = this.#draw()
      this.#done.push(name)
      await action()
      await this.#check()
      if (this.#violated !== null) return `${this.#violated}, after ${this.#done.join(', ')}`
    }
    return this.#settle()
  }

  /** Notes what is wrong now. The truth takes over what has left. */
  async #check(): Promise<void> {
    this.#violated ??= await archiveViolations(this.#opened, this.#target, this.#market, this.#truth, this.#isCopy)
  }

  /** In the end, runs write all that is due, and then the archive has what the database has. */
  async #settle(): Promise<string | null> {
    for (let run = 0; run < 2; run++) await this.#archiveRun(this.#target)
    await this.#check()
    const problems: string[] = []
    const options = { database: this.#opened, pointers: await readPointers(this.#db) }
    for await (const day of verifyArchive(this.#target, options))
      problems.push(...day.problems.map((problem) => `${day.table} of ${day.day}: ${problem}`))
    const violated = this.#violated ?? (problems.length > 0 ? problems.join('; ') : null)
    return violated === null ? null : `${violated}, in the end, after ${this.#done.join(', ')}`
  }

  #draw(): readonly [string, () => Promise<void>] {
    const actions = [
      [6, 'a recording', () => this.#record()],
      [3, 'a pause', () => this.#pause()],
      [3, 'a correction', () => this.#correct()],
      [2, 'a repair', () => this.#repair()],
      [4, 'a run', () => this.#archiveRun(this.#target)],
      [2, 'a kill', () => this.#archiveRun(this.#dyingTarget())],
      [1, 'two archivers', () => this.#twoArchivers()],
      [3, 'a removal', () => this.#remove(this.#target)],
      [2, 'a removal while rows come', () => this.#remove(this.#disturbedTarget())],
      [1, 'a prune', () => this.#prune()],
      [2, 'a dump', () => this.#makeDump()],
      [2, 'a dump brought back', () => this.#bringBack()],
      [1, 'a disaster', () => this.#disaster()],
    ] as const
    // Each sequence has actions of its own that are frequent. All of them evenly would seldom meet in a rare order.
    for (let i = this.#shares.length; i < actions.length; i++) this.#shares.push(this.#random() < 0.5 ? 0.3 : 2)
    const weights = actions.map(([weight], i) => weight * (this.#shares[i] ?? 1))
    let left = this.#random() * sum(weights)
    for (const [i, [, name, action]] of actions.entries()) if ((left -= weights[i] ?? 0) < 0) return [name, action]
    return ['a recording', () => this.#record()]
  }

  get #opened(): RecorderDatabase {
    return this.#database as RecorderDatabase
  }
  get #db() {
    return this.#opened.db
  }
  get #target(): ArchiveTarget {
    return this.#archive.target
  }

  #pause(): Promise<void> {
    return Promise.resolve(this.#market.pass(20 + this.#random() * 60))
  }

  async #record(): Promise<void> {
    this.#market.pass(1 + this.#random() * 14)
    const { now } = this.#market
    for (const series of fillSeries) {
      const rows = this.#market.fills(series).slice(-pageRows).toReversed()
      await this.#store(withoutOldRows(batchOf('fills', series, rows, now), kept.fills * dayMs))
    }
    const rows = this.#market.candles(this.#market.lastOpen() - 60 * hourMs, this.#market.lastOpen() + 1)
    await this.#store(batchOf('candles', { ...candleSeries, settleMs: 0, limit: rows.length }, rows, now))
  }

  /** Candles are read again after the service has corrected one of them, whether or not it has left. */
  async #correct(day?: number): Promise<void> {
    const known = [...this.#truth.candles.keys()]
      .map((key) => Number(key.split(' ')[1]))
      .filter((openTime) => day === undefined || (openTime >= day && openTime < day + dayMs))
    const openTime = known[Math.floor(this.#random() * known.length)] ?? Number.NaN
    if (Number.isNaN(openTime)) return
    this.#market.correct(openTime)
    const rows = this.#market.candles(openTime - 10 * hourMs, Math.min(openTime + 10 * hourMs, this.#market.lastOpen()))
    if (rows.length > 0) await this.#store({ ...batchOf('candles', candleSeries, rows, this.#market.now), silence: [] })
  }

  async #store(batch: Batch): Promise<void> {
    const stored = await storeBatch(this.#db, batch)
    if (stored.rejected > 0) throw new Error(`rows were rejected: ${JSON.stringify(stored)}`)
    const rows = batch.rows as readonly { symbol: string; ts: number; openTime: number; close: string; price: string }[]
    for (const row of rows) {
      if (batch.stream === 'fills') this.#truth.fills.set(`${row.symbol} ${row.ts}`, row.price)
      else if ((row as unknown as { isClosed: boolean }).isClosed)
        this.#truth.candles.set(`${row.symbol} ${row.openTime}`, row.close)
    }
  }

  /** The history is asked for an open gap. */
  async #repair(): Promise<void> {
    const { rows } = await sql<{ symbol: string; from: number; to: number }>`
      select symbol, from_time as "from", to_time as "to" from market.gaps
      where stream = 'fills' and state <> 'repaired' order by from_time, symbol`.execute(this.#db)
    const gap = rows[Math.floor(this.#random() * rows.length)]
    if (gap === undefined) return
    const series = fillSeries.find(({ symbol }) => symbol === gap.symbol) as FillSeries
    const asked = { from: gap.from - 12 * hourMs, to: Math.min(gap.to + 12 * hourMs, this.#market.now - 60_000) }
    const fills = this.#market.fills(series).filter(({ ts }) => ts >= asked.from && ts < asked.to)
    const page = {
      asked,
      fills,
      other: null,
      reachesTo: 0,
      largest: 1_000,
      disorderMs: 0,
      requestTime: this.#market.now,
    }
    const { refusal } = await storePastFills(this.#db, series, page)
    if (refusal !== null) throw new Error(`a history was refused: ${refusal}`)
    for (const { symbol, ts, price } of fills) this.#truth.fills.set(`${symbol} ${ts}`, price)
  }

  async #archiveRun(target: ArchiveTarget): Promise<void> {
    try {
      const { problems } = await archiveAll(this.#opened, target, this.#market.now)
      if (problems.length > 0) throw new Error(problems.join('; '))
      if (this.#isCopy) throw new Error('a copy of the database wrote to the archive of another one')
    } catch (error) {
      const { message } = error as Error
      if (/archive adopt/.test(message) && this.#isCopy) return this.#adopt()
      if (message !== killed && !/another archiver|somebody else has just written/.test(message)) throw error
    }
  }

  async #adopt(): Promise<void> {
    try {
      await adoptArchive(this.#db, this.#target)
      this.#isCopy = false
    } catch (error) {
      if (!/another archiver/.test((error as Error).message)) throw error
    }
  }

  async #twoArchivers(): Promise<void> {
    await Promise.all([this.#archiveRun(this.#target), this.#archiveRun(this.#target)])
  }

  async #remove(target: ArchiveTarget): Promise<void> {
    try {
      await removeArchived(this.#opened, target, tables, { now: () => this.#market.now })
      if (this.#isCopy) throw new Error('a copy of the database removed rows')
    } catch (error) {
      if (!/archive adopt/.test((error as Error).message) || !this.#isCopy) throw error
    }
  }

  async #prune(): Promise<void> {
    if (!this.#isCopy) await pruneArchive(this.#target, await readPointers(this.#db))
  }

  async #makeDump(): Promise<void> {
    if (this.#isCopy) return
    const name = `${this.#name}_dump`
    await this.#opened.close()
    await dropDatabase(this.#server.adminUrl, name)
    await closeDatabase(this.#server.adminUrl, this.#current)
    await this.#admin(`create database ${name} template ${this.#current} ${this.#server.strategy}`)
    await closeDatabase(this.#server.adminUrl, name)
    await this.#admin(`alter database ${this.#current} allow_connections true`)
    this.#database = openDatabase({ url: databaseUrl(this.#server.adminUrl, this.#current) })
    this.#dump = { name, truth: { fills: new Map(this.#truth.fills), candles: new Map(this.#truth.candles) } }
  }

  /** The archive knows days that the dump does not, and the same days are shown again once it was brought back. */
  async #disaster(): Promise<void> {
    const run = () => this.#archiveRun(this.#target)
    const before = [() => this.#makeDump(), () => this.#pause(), () => this.#record(), run, () => this.#bringBack()]
    for (const action of [...before, run, () => this.#record(), () => this.#repair()]) {
      await action()
      await this.#check()
    }
  }

  /** What neither the dump nor the archive has is lost. */
  async #bringBack(): Promise<void> {
    if (this.#dump === undefined) return
    const before = this.#current
    await this.#opened.close()
    await this.#clone(this.#dump.name)
    await dropDatabase(this.#server.adminUrl, before)
    for (const table of ['fills', 'candles'] as const) {
      this.#truth[table].clear()
      for (const [key, value] of this.#dump.truth[table]) this.#truth[table].set(key, value)
    }
    // Before its first run an archive is nobody's.
    this.#isCopy = (await this.#target.read('owner.json')) !== null
    this.#truth.final.clear()
    this.#truth.left.clear()
    // What the archive has counts from now on.
    const pointers = await hintsOf(this.#target)
    for (const table of ['fills', 'candles'] as const) {
      for (const [key, value] of await archivedRows(this.#target, table, this.#truth, pointers)) {
        this.#truth[table].set(key, value)
        this.#truth.final.set(`${table} ${key}`, value)
      }
    }
  }

  /** A target that is gone from some call on, as if its process had been killed. Its error is one of the system. */
  #dyingTarget(): ArchiveTarget {
    let left = Math.floor(this.#random() * 120)
    return new Proxy(this.#target, {
      get(target, property: keyof ArchiveTarget) {
        const value = target[property]
        if (typeof value !== 'function' || property === 'close') return value
        return (...parameters: never[]) => {
          if (left-- <= 0) return Promise.reject(Object.assign(new Error(killed), { code: 'KILLED' }))
          return (value as (...values: never[]) => unknown).apply(target, parameters)
        }
      },
    })
  }

  /** A target that is read once while late rows come, and while a candle of the day that is compared is corrected. */
  #disturbedTarget(): ArchiveTarget {
    let left = Math.floor(this.#random() * 8)
    return new Proxy(this.#target, {
      get: (target, property: keyof ArchiveTarget) => {
        if (property !== 'fetch') return target[property]
        return async (path: string) => {
          if (path.includes('candles') && left-- === 0) {
            // What has left by now has left with the values of before.
            await this.#check()
            await this.#repair()
            await this.#correct(Date.parse(/day=([\d-]+)/.exec(path)?.[1] ?? ''))
          }
          return target.fetch(path)
        }
      },
    })
  }

  async #clone(template: string): Promise<void> {
    this.#current = `${this.#name}_${this.#databases++}`
    await this.#admin(`create database ${this.#current} template ${template} ${this.#server.strategy}`)
    this.#database = openDatabase({ url: databaseUrl(this.#server.adminUrl, this.#current) })
  }

  #admin(statement: string): Promise<void> {
    return asAdmin(this.#server.adminUrl, statement)
  }

  async drop(): Promise<void> {
    await this.#database?.close()
    for (const name of [this.#current, this.#dump?.name ?? ''])
      if (name !== '') await dropDatabase(this.#server.adminUrl, name)
    await this.#archive.drop()
  }
}

const killed = 'the archiver was killed'
