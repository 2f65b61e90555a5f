import { hostname } from 'node:os'
import type pg from 'pg'
import { type Clock, elapsedMs, sleepFor, type StretchStart, stretchFrom } from '../runtime/clock.js'
import { type Disk, systemDisk } from '../runtime/disk.js'
import { untilUnlocked } from '../runtime/folderLock.js'
import type { Logger } from '../runtime/logger.js'
import { randomName } from '../runtime/randomness.js'
import { Right } from '../runtime/right.js'
import type { ServiceMs } from '../market/values.js'
import type { RunQuery } from '../db/database.js'
import { describeDatabaseError, mayPassLater, traitsOf } from '../db/databaseError.js'
import { connectTimeoutMs } from '../db/pool.js'
import { createConnection, endConnection, responseWithinMs } from './leaseConnection.js'
import { LeaseNote } from './leaseNote.js'
import { commandPlace, isFree, isReply, lookAtRow, releaseRow, renewRow, type Sharing, takeRow } from './leaseRow.js'
import { Lapses, leaseMs, rightMs, SendingRight } from './right.js'

const beatMs = 500
const shortestPauseMs = 100
const judgeEveryMs = 100
const listEveryMs = 1_000

interface LeaseOptions {
  readonly logger: Logger
  readonly clock: Clock
  /** Data folder. A command may still send by a lock of this folder. The first request waits for that. */
  readonly folder: string
  /** File that notes whether another recorder waits. A start without the database reads it. */
  readonly noteFile?: string
  readonly disk?: Disk
  /**
   * How long the row must be seen unrenewed before it is taken from a recorder. Default and minimum: 3.5 s. If set, a row
   * that a recorder gave back is taken only after this time, too.
   */
  readonly takeAfterMs?: number
  /** Only commands have it. Called while a recorder waits for the right; the command should then release it soon. */
  readonly giveWay?: () => void
  readonly serviceNow?: () => ServiceMs | null
  /** This recorder's part in shared work. Without it, the recorder shares no work. */
  readonly sharing?: Sharing
}

interface Acquisition {
  readonly signal?: AbortSignal
  /** True to start even if the database is away at first. Default false. */
  readonly mayStartWithoutDatabase?: boolean
  /** Called once if another recorder renews the right. This recorder then waits until it ends. */
  readonly onStandby?: () => void
}

/**
 * Takes the right to send requests from an address, and waits while another recorder has it. The service counts
 * requests per address, so one recorder owns the whole budget. Rejects if `signal` aborts, or if the database cannot be
 * reached at first. A recorder with `mayStartWithoutDatabase` starts even while the database refuses connections. It
 * waits if another recorder was waiting for the address at its last contact.
 *
 * The right is one row of `recorder.lease`. Two recorders never exceed the limits of an address together, because:
 *
 * 1. The owner renews its row twice a second, `where owner = me and epoch = mine`. Each renewal lets it send for 3 s
 *    from the time of its request. A suspension of the machine counts, and setting its clock does not (right.ts). The
 *    right is checked before each request departs.
 * 2. A row that was given back can be taken at once, though `takeAfterMs` leaves it to others. Any other or missing row is
 *    taken only after 3.5 s without renewal. The recorder looks at it each half second, on one connection. The take
 *    compares the row with what was seen.
 * 3. A look writes to the row, so whatever stops the owner's renewal also stops waiting recorders. Their 3.5 s then begin
 *    anew. So the owner may go on for 3 s after each such failure. A short lock may stop a renewal and no look, so a lock
 *    counts only if it stops two renewals in a row. It never gives a right that does not hold: its holder may be taking
 *    the row.
 * 4. A renewal that finds no row of its own ends the right at once. A deleted row or a connection pooler may thus stop
 *    a recorder, and never makes two of them send.
 * 5. While the database is silent, the owner goes on sending, unless another recorder was waiting before. Otherwise the
 *    data of every silence would be lost. This is the one exception to the promise: another recorder may begin to wait
 *    during the silence. The owner does not notice it, and both send. A start without the database has this exception,
 *    too, but not for recorders with the same data folder: leaseNote.ts.
 * 6. After a suspension of the machine, only the database can give the right: failures neither extend nor begin it. The
 *    machine's uptime reveals a suspension. A virtual machine that was paused from outside does not know of it.
 * 7. A command gives its row up to a recorder that waits, because the past can be had later. So only a recorder notes on
 *    the row of a command that it waits. An owner that is a command does not know of other commands that wait, so no
 *    failure extends its right.
 */
export async function acquireLease(url: string, egress: string, options: LeaseOptions & Acquisition): Promise<Lease> {
  const lease = new Lease(egress, options)
  await lease.acquire(url, options)
  return lease
}

/** The right to send requests from an address: a row of `recorder.lease`. `acquireLease` says how it is kept. */
export class Lease extends Right {
  readonly #egress: string
  readonly #options: LeaseOptions
  readonly #clock: Clock
  readonly #claimant
  readonly #right: SendingRight
  readonly #note: LeaseNote
  readonly #lapses: Lapses
  readonly #ended = new AbortController()
  #client: pg.Client | undefined
  #connectedMs = 0
  /** Epoch of the row that this recorder owns; null while it owns none. */
  #epoch: string | null = null
  /** The row of another recorder: its state, when that state began, and when it was last seen. */
  #watch: { readonly stamp: string; readonly sinceMs: number; readonly lookedAt: StretchStart } | null = null
  #maySend = false
  #isStandby = false
  #onStandby: (() => void) | undefined
  #url = ''
  #mayStartWithoutDatabase = false
  #listedMs = -Infinity
  #hasLeft = false
  #attempt: Promise<unknown> = Promise.resolve()
  #loops: Promise<unknown> = Promise.resolve()

  constructor(egress: string, options: LeaseOptions) {
    super()
    const { logger, disk = systemDisk, noteFile } = options
    const owner = `${hostname()} ${process.pid} ${randomName(4)}`
    const place = options.giveWay === undefined ? (options.sharing?.place ?? owner) : `${commandPlace} ${owner}`
    this.#egress = egress
    this.#options = options
    this.#clock = options.clock
    this.#claimant = { egress, owner, place, yieldsToRecorders: options.takeAfterMs !== undefined }
    this.#right = new SendingRight(this.#clock)
    this.#note = new LeaseNote({ file: noteFile, egress, clock: this.#clock, disk, logger })
    this.#lapses = new Lapses(egress, logger, this.#clock)
  }

  /** True if requests may be sent, as of a moment ago. */
  get maySend(): boolean {
    return this.#maySend
  }

  /**
   * Returns true if requests may be sent now (rule 1). In a process that was stopped for a while, it returns false until
   * the database was asked again.
   */
  check(): boolean {
    this.#judge()
    return this.#maySend
  }

  /** Waits for the right in a database. See `acquireLease`. */
  async acquire(url: string, { signal, mayStartWithoutDatabase = false, onStandby }: Acquisition = {}): Promise<void> {
    const { folder, disk = systemDisk } = this.#options
    this.#url = url
    this.#onStandby = onStandby
    this.#mayStartWithoutDatabase = mayStartWithoutDatabase
    try {
      signal?.throwIfAborted()
      // The database exists by now, so no further command begins to send by the lock of the folder.
      const onWait = (line: string) => this.#options.logger.warn(line)
      await untilUnlocked(folder, 'sending', { clock: this.#clock, disk, onWait, ...(signal && { signal }) })
      // A busy server may be slow to open the first connection. Nothing is claimed yet, so nothing ends meanwhile.
      if (!mayStartWithoutDatabase) await this.#connect(connectTimeoutMs)
      // From now on the database may be away at times.
      for (;;) {
        const failure = await this.#try(signal)
        if (failure !== undefined && !mayPassLater(failure)) throw failure
        if (this.#right.holds()) break
        await this.#clock.sleep(beatMs, signal)
      }
    } catch (error) {
      await this.#disconnect()
      throw error
    }
    this.#onStandby = undefined
    this.#judge()
    this.#loops = Promise.all([this.#keepTrying(), this.#keepJudging()])
  }

  /** Leaves this recorder's part of the work to the other recorders. */
  async leave(): Promise<void> {
    this.#hasLeft = true
    if (this.#options.sharing !== undefined && this.#epoch !== null) await this.#try()
  }

  async release(): Promise<void> {
    this.#ended.abort()
    await this.#loops
    this.#maySend = false
    this.#right.lost()
    if (this.#client !== undefined) await releaseRow(this.#run, this.#claimant).catch(() => undefined)
    await this.#note.release()
    await this.#disconnect()
  }

  async #keepTrying(): Promise<void> {
    const { signal } = this.#ended
    for (let pauseMs = beatMs; await sleepFor(this.#clock, pauseMs, signal);) {
      const startedMs = this.#clock.monotonicMs()
      await this.#try(signal)
      pauseMs = Math.max(shortestPauseMs, beatMs - (this.#clock.monotonicMs() - startedMs))
    }
  }

  async #keepJudging(): Promise<void> {
    while (await sleepFor(this.#clock, judgeEveryMs, this.#ended.signal)) this.#judge()
  }

  /** Renews the row or tries to take it, one attempt after another. Resolves to the error of a failed attempt. */
  #try(signal?: AbortSignal): Promise<Error | undefined> {
    const attempt = this.#attempt.then(() => this.#tryNow(signal))
    this.#attempt = attempt
    return attempt
  }

  async #tryNow(signal: AbortSignal | undefined): Promise<Error | undefined> {
    if (signal?.aborted === true) return undefined
    const sentAt = stretchFrom(this.#clock)
    try {
      if (this.#client === undefined) await this.#connect()
      await (this.#epoch === null ? this.#claim(sentAt) : this.#renew(this.#epoch, sentAt))
      return undefined
    } catch (error) {
      this.#options.logger.debug(`the lease of ${this.#egress}: ${describeDatabaseError(error)}`)
      this.#watch = null
      // Rules 3 and 5 to 7 say which failures extend the right.
      const { preventsTakeover, isLocked } = traitsOf(error)
      if (this.#options.giveWay === undefined)
        this.#right.failed(sentAt, preventsTakeover ? 'takeover prevented' : isLocked ? 'row locked' : 'unknown')
      if (preventsTakeover) await this.#goOnWithout(sentAt, signal)
      if (!isReply(error)) await this.#disconnect()
      return error instanceof Error ? error : new Error(String(error))
    } finally {
      this.#judge()
    }
  }

  async #renew(epoch: string, sentAt: StretchStart): Promise<void> {
    const { sharing } = this.#options
    const listsFleet = sharing !== undefined && sentAt.ms - this.#listedMs >= listEveryMs - beatMs / 2
    const part = {
      fleet: sharing?.takesPart() === true && !this.#hasLeft ? sharing.streamsDigest : null,
      weight: sharing?.weight ?? null,
      listedFleet: listsFleet ? sharing.streamsDigest : null,
      serviceTime: this.#options.serviceNow?.() ?? null,
    }
    const renewed = await renewRow(this.#run, this.#claimant, epoch, part)
    if (renewed === null) {
      // Rule 4: this recorder's row is gone, so its right ends at once.
      this.#options.logger.warn(`the row of ${this.#egress} in recorder.lease is not this recorder's any more`)
      this.#epoch = null
      this.#right.lost()
      this.#lapses.drop()
      return
    }
    this.#proven(sentAt, renewed.isWaitedFor)
    if (renewed.isWaitedFor) this.#options.giveWay?.()
    if (!listsFleet) return
    this.#listedMs = sentAt.ms
    sharing.onFleetRead(renewed.fleet, this.#clock.monotonicMs() - this.#connectedMs)
  }

  #proven(sentAt: StretchStart, isWaitedFor: boolean): void {
    this.#right.proven(sentAt, isWaitedFor)
    this.#note.note(isWaitedFor)
  }

  /** Takes the row, or looks at it if another recorder holds it. */
  async #claim(sentAt: StretchStart): Promise<void> {
    const watch = this.#watch
    // Rule 2: `takeRow` decides on a row that was given back. Any other must be seen unrenewed for long enough.
    const takeAfterMs = watch?.stamp === 'absent' ? leaseMs : Math.max(leaseMs, this.#options.takeAfterMs ?? 0)
    const isOver = watch !== null && this.#clock.monotonicMs() - watch.sinceMs >= takeAfterMs
    if (watch === null || isFree(watch.stamp) || isOver) {
      const taken = await takeRow(this.#run, this.#claimant, isOver ? watch.stamp : null)
      if (taken !== null) {
        this.#epoch = taken.epoch
        this.#watch = null
        this.#isStandby = false
        return this.#proven(sentAt, taken.isWaitedFor)
      }
    }
    this.#right.lost()
    // Rule 3: this look writes to the row. If that fails, the failure ends the watch, and a new wait begins.
    const lookedAt = stretchFrom(this.#clock)
    const stamp = await lookAtRow(this.#run, this.#claimant)
    // A process that was stopped between two looks does not know what happened in between.
    const isKnown = watch?.stamp === stamp && elapsedMs(this.#clock, watch.lookedAt) < rightMs
    this.#watch = { stamp, sinceMs: isKnown ? watch.sinceMs : this.#clock.monotonicMs(), lookedAt }
    this.#note.note(true)
    const isRenewed = watch !== null && watch.stamp !== stamp && stamp !== 'absent' && !isFree(stamp)
    if (isRenewed) {
      this.#onStandby?.()
      this.#onStandby = undefined
    }
    this.#standBy(
      stamp === 'absent'
        ? `${this.#egress} has no row in recorder.lease; sending begins after ${leaseMs / 1000} s, should another recorder still send`
        : `another recorder owns the budget of ${this.#egress}, or did not give it back; waiting until it ends`,
    )
  }

  /**
   * Lets a recorder with `mayStartWithoutDatabase` send while no other recorder can take the row, such as while no server
   * runs. No other recorder may have been waiting at the last contact.
   */
  async #goOnWithout(sentAt: StretchStart, signal: AbortSignal | undefined): Promise<void> {
    // Rule 6: a machine that was suspended waits for the database.
    if (!this.#mayStartWithoutDatabase || this.#right.holds() || this.#right.hasSlept) return
    // Rule 5: no other recorder may have been waiting.
    if (!(await this.#note.claim(signal)))
      return this.#standBy(
        `the database is away, and another recorder was seen for ${this.#egress}; waiting until it is known who may send`,
      )
    this.#options.logger.warn(`the database is away; recording to disk: no other recorder seen for ${this.#egress}`)
    this.#lapses.drop()
    this.#right.proven(sentAt, true)
  }

  #standBy(why: string): void {
    if (!this.#isStandby) this.#options.logger.info(why)
    this.#isStandby = true
  }

  #judge(): void {
    const maySend = this.#right.holds()
    this.#lapses.look()
    if (maySend === this.#maySend) return
    this.#maySend = maySend
    // The loss of a row is told where it is noticed.
    if (!maySend) return this.#epoch === null ? undefined : this.#lapses.begin()
    if (!this.#lapses.end()) this.#options.logger.info(`this recorder owns the budget of ${this.#egress}`)
    this.gained()
  }

  async #connect(timeoutMs = responseWithinMs): Promise<void> {
    const client = createConnection(this.#url, timeoutMs)
    this.#client = client
    await client.connect()
    client.on('end', () => {
      if (this.#client !== client) return
      this.#client = undefined
      // The server may have been away. Earlier looks say nothing about that time.
      this.#watch = null
    })
    this.#connectedMs = this.#clock.monotonicMs()
  }

  async #disconnect(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    this.#watch = null
    if (client !== undefined) await endConnection(client, this.#clock)
  }

  readonly #run: RunQuery = async (text, values) => {
    if (this.#client === undefined) throw new Error('the connection of the lease is closed')
    return this.#client.query<Record<string, unknown>>(text, [...values])
  }
}
