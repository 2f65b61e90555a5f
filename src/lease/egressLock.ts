import { hostname } from 'node:os'
import type pg from 'pg'
import { type Clock, systemClock } from '../runtime/clock.js'
import { type Disk, systemDisk } from '../runtime/disk.js'
import { randomName } from '../runtime/randomness.js'
import { describeDatabaseError, isUnavailable } from '../db/databaseError.js'
import type { EgressLock, EgressLockOptions } from './egressOptions.js'
import { endSilentOwner, fleetChannel, sayGoodbye } from './fleetState.js'
import { lockNames } from '../db/locks/names.js'
import { countHolders, lockShared, type RunQuery, tryLock, unlock } from '../db/locks/sessionLock.js'
import { isNotMigrated, isRefusal, isReply } from './egressErrors.js'
import { endLockSession, lockClient, startLockSession } from './egressSession.js'
import { type EgressEvidence, mayStillSend, nothingKnown, rightMs } from './egressRight.js'
import { wasContended, writeEgressNote } from './egressNote.js'

const checkEveryMs = 500
const lookEveryMs = 100
const shareEveryMs = 1_000
/** An owner that says nothing for so long is stopped, or its machine is: it must not keep the address for that. */
const silentOwnerMs = 8_000
/** How long a successor keeps still when its predecessor has not said good-bye: longer than that one's right lasts. */
const quietMs = rightMs + 500

/**
 * Takes the right to send requests from an egress IP: the service counts per IP, so one process owns its whole budget.
 * Waits while another process has it; rejects when `signal` aborts meanwhile or the database cannot be reached at first. A
 * patient one begins without the database as soon as a connection is refused, unless another recorder was there before.
 *
 * The right is a lock that a session holds (../locks). The server ends the session of a process that dies at once, and that of one that
 * it cannot reach after 4 s; the process itself stops sending 2 s after the last proof that it is still the owner, and its
 * successor waits 2.5 s before it begins. What counts as proof is in egressRight.ts.
 */
export async function acquireEgressLock(url: string, egress: string, options: EgressLockOptions): Promise<EgressLock> {
  const lock = new SessionLock(url, egress, options)
  await lock.acquire()
  return lock
}

class SessionLock implements EgressLock {
  readonly #url: string
  readonly #egress: string
  readonly #options: EgressLockOptions
  readonly #clock: Clock
  readonly #disk: Disk
  readonly #owner = `${hostname()} ${process.pid} ${randomName(4)}`
  readonly #ended = new AbortController()
  #client: pg.Client | undefined
  /** Whether the session of the client has the lock. */
  #hasLock = false
  #evidence: EgressEvidence = nothingKnown
  /** Another recorder was waiting when that was last looked at. */
  #sawStandby = false
  #maySend = false
  #isContended: boolean | undefined
  #watching: Promise<unknown> = Promise.resolve()
  /** When the right was last looked at. Nothing looks in a process that is stopped. */
  #lookedMs = -Infinity
  #wokeMs = -Infinity
  /** When the last attempt was made that told who owns the budget, or that nobody can tell. */
  #checkedMs = -Infinity
  #sharedMs = -Infinity
  #connectedMs = -Infinity
  #hasLeft = false
  #wake = new AbortController()

  constructor(url: string, egress: string, options: EgressLockOptions) {
    this.#url = url
    this.#egress = egress
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#disk = options.disk ?? systemDisk
  }

  get maySend(): boolean {
    return this.#maySend
  }

  async acquire(): Promise<void> {
    const { signal } = this.#options
    try {
      signal?.throwIfAborted()
      if (this.#options.isPatient !== true) await this.#connect()
      // From here on the database may go away and come back: who waits goes on waiting.
      while (!(await this.#tryTurn(signal)) && !(await this.#mayBeginWithout())) {
        await this.#clock.sleep(checkEveryMs, signal)
      }
    } catch (error) {
      await this.#disconnect()
      throw error
    }
    this.#lookedMs = this.#clock.monotonicMs()
    this.#judge()
    this.#watching = Promise.all([this.#keepChecking(), this.#keepJudging()])
  }

  check(): boolean {
    this.#judge()
    return this.#maySend
  }

  async leave(): Promise<void> {
    this.#hasLeft = true
    if (this.#options.sharing === undefined || this.#client === undefined) return
    await sayGoodbye(this.#run, this.#egress, this.#owner).catch(() => undefined)
  }

  async release(): Promise<void> {
    this.#ended.abort()
    this.#wake.abort()
    await this.#watching
    this.#maySend = false
    const farewell =
      'update recorder.egress set released_at = now(), heartbeat_at = null where egress = $1 and owner = $2'
    await this.#client?.query(farewell, [this.#egress, this.#owner]).catch(() => undefined)
    if (this.#client !== undefined) await unlock(this.#run, lockNames.egress(this.#egress)).catch(() => undefined)
    await this.#disconnect()
  }

  async #connect(): Promise<void> {
    const client = lockClient(this.#url)
    client.on('notification', () => {
      this.#sharedMs = -Infinity
      this.#wake.abort()
    })
    this.#client = client
    await startLockSession(client)
    // A session that has ended is replaced at once: meanwhile others may take this recorder for gone. One that never began is not.
    client.on('end', () => {
      if (this.#client === client) this.#wake.abort()
    })
    // What is said once a second need not be on the disk: whoever asks after a crash is told anew.
    if (this.#options.sharing !== undefined) await client.query(`set synchronous_commit = off; listen ${fleetChannel}`)
    this.#connectedMs = this.#clock.monotonicMs()
  }

  async #disconnect(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    this.#hasLock = false
    if (client === undefined) return
    await endLockSession(client, this.#clock)
  }

  async #tryTurn(signal: AbortSignal | undefined): Promise<boolean> {
    try {
      if (this.#client === undefined) await this.#connect()
      await this.#waitForTurn(signal)
      return true
    } catch (error) {
      signal?.throwIfAborted()
      if (!isUnavailable(error)) throw error
      if (isRefusal(error) || isNotMigrated(error)) {
        this.#evidence = { ...this.#evidence, refusedMs: this.#clock.monotonicMs() }
      }
      await this.#disconnect()
      return false
    }
  }

  /**
   * Whether to begin without the database: there is no server that could have given the lock to anybody since this machine
   * last looked, and nobody else was there then. What is not known is taken as if another one waited: without a refusal a
   * moment ago, sending ends.
   */
  async #mayBeginWithout(): Promise<boolean> {
    const { noteFile, isPatient, logger } = this.#options
    if (isPatient !== true || this.#clock.monotonicMs() - this.#evidence.refusedMs >= rightMs) return false
    if (this.#isContended ?? (noteFile !== undefined && (await wasContended(this.#disk, noteFile, this.#egress))))
      return false
    logger.warn(`the database is away; recording to disk, since no other recorder was seen for ${this.#egress}`)
    this.#evidence = { ...this.#evidence, hadStandby: true, isOwner: true }
    return true
  }

  /** Told only when it changes. */
  #note(isContended: boolean): void {
    const { noteFile, logger } = this.#options
    if (noteFile === undefined || this.#isContended === isContended) return
    this.#isContended = isContended
    void writeEgressNote(this.#disk, noteFile, { egress: this.#egress, isContended }, logger)
  }

  /** Asks again and again until this process has the lock and its predecessor has fallen silent. */
  async #waitForTurn(signal: AbortSignal | undefined): Promise<void> {
    const { logger } = this.#options
    let isStandby = false
    while (!(await tryLock(this.#run, lockNames.egress(this.#egress)))) {
      if (!isStandby) {
        logger.info(`another recorder owns the budget of ${this.#egress}; waiting until it ends`)
        this.#note(true)
        await lockShared(this.#run, lockNames.egressStandby(this.#egress), this.#owner)
        isStandby = true
      }
      await this.#endSilentOwner()
      await this.#clock.sleep(checkEveryMs, signal)
    }
    if (isStandby) await unlock(this.#run, lockNames.egressStandby(this.#egress), this.#owner)
    if (await this.#hasSilentPredecessor()) {
      logger.info(
        `the last owner of the budget of ${this.#egress} did not shut down cleanly; sending starts in a moment`,
      )
      await this.#clock.sleep(quietMs, signal)
    }
    await this.#enter()
  }

  async #enter(): Promise<void> {
    const sentMs = this.#clock.monotonicMs()
    const entry = this.#hasLeft ? undefined : this.#options.sharing?.entry
    await this.#query(
      // A recorder that takes over from one that has just died need not be missed in between.
      `insert into recorder.egress as known (egress, owner, held_since, fleet, budget, place)
       values ($1, $2, now(), $3, $4, $5)
       on conflict (egress) do update set owner = excluded.owner, held_since = excluded.held_since, released_at = null,
         fleet = excluded.fleet, budget = excluded.budget, place = excluded.place,
         heartbeat_at = case when excluded.fleet = known.fleet then known.heartbeat_at end`,
      [this.#egress, this.#owner, entry?.fleet ?? null, entry?.budget ?? null, entry?.place ?? null],
    )
    await this.#share()
    // Whoever waits is known from the first moment on: the connection may be lost before the next look.
    await this.#check(sentMs)
    this.#evidence = { ...this.#evidence, isOwner: true }
    this.#hasLock = true
  }

  async #share(): Promise<void> {
    const { sharing } = this.#options
    if (sharing === undefined || this.#hasLeft) return
    this.#sharedMs = this.#clock.monotonicMs()
    await sharing.look(this.#run, { owner: this.#owner, sinceMs: this.#connectedMs })
  }

  async #endSilentOwner(): Promise<void> {
    const { sharing, logger } = this.#options
    if (sharing === undefined) return
    try {
      if (await endSilentOwner(this.#run, this.#egress, lockNames.egress(this.#egress), silentOwnerMs))
        logger.warn(`the owner of the budget of ${this.#egress} does not respond any more; its session was ended`)
    } catch (error) {
      // A login that may not end another one's session leaves it to the server.
      if (!isReply(error)) throw error
    }
  }

  async #hasSilentPredecessor(): Promise<boolean> {
    const rows = await this.#query(
      'select from recorder.egress where egress = $1 and owner <> $2 and released_at is null',
      [this.#egress, this.#owner],
    )
    return rows.length > 0
  }

  async #keepChecking(): Promise<void> {
    const { signal } = this.#ended
    while (await this.#sleep(checkEveryMs, this.#wake.signal)) {
      this.#wake = new AbortController()
      const sentMs = this.#clock.monotonicMs()
      // A session that was ended meanwhile tells nothing: only the next one will.
      const isTelling = this.#client === undefined
      try {
        if (this.#client === undefined) await this.#returnToLock(signal)
        else await this.#check(sentMs)
        this.#checkedMs = sentMs
      } catch (error) {
        if (signal.aborted) return
        if (isTelling) this.#checkedMs = sentMs
        if (this.#hasLock && isReply(error)) {
          // The session is alive, and the lock is its own: read-only, out of memory or disk are no reason to stop.
          this.#evidence = { ...this.#evidence, confirmedMs: sentMs, hasLapsed: false }
          this.#checkedMs = sentMs
          continue
        }
        if (isRefusal(error) || isNotMigrated(error)) this.#evidence = { ...this.#evidence, refusedMs: sentMs }
        await this.#disconnect()
      }
    }
  }

  async #check(sentMs: number): Promise<void> {
    const hasStandby = (await countHolders(this.#run, lockNames.egressStandby(this.#egress))) > 0
    // Whoever waits is known from here on: the connection may be lost before the rest of the check is done.
    if (hasStandby) this.#seesStandby(true)
    if (sentMs - this.#sharedMs >= shareEveryMs - checkEveryMs / 2) await this.#share()
    this.#evidence = { ...this.#evidence, confirmedMs: sentMs, hasLapsed: false }
    this.#seesStandby(hasStandby)
  }

  #seesStandby(hadStandby: boolean): void {
    this.#evidence = { ...this.#evidence, hadStandby }
    this.#sawStandby = hadStandby
    this.#note(hadStandby)
  }

  /** A new session has no lock: takes it if it is free, and waits like any other process if it is not. */
  async #returnToLock(signal: AbortSignal): Promise<void> {
    await this.#connect()
    const isHeld = await tryLock(this.#run, lockNames.egress(this.#egress))
    if (isHeld && !(await this.#hasSilentPredecessor())) return this.#enter()
    // Somebody else has it, or had it meanwhile.
    this.#evidence = { ...this.#evidence, isOwner: false }
    this.#note(true)
    this.#judge()
    if (isHeld) await unlock(this.#run, lockNames.egress(this.#egress))
    await this.#waitForTurn(signal)
  }

  async #keepJudging(): Promise<void> {
    while (await this.#sleep(lookEveryMs)) this.#judge()
  }

  #judge(): void {
    const nowMs = this.#clock.monotonicMs()
    // Stopped for so long, others may have begun: what is known is not of now.
    if (nowMs - this.#lookedMs >= rightMs) this.#wokeMs = nowMs
    this.#lookedMs = nowMs
    const mayStill = mayStillSend(this.#evidence, nowMs)
    if (!mayStill && this.#sawStandby) this.#evidence = { ...this.#evidence, hasLapsed: true }
    const maySend = this.#checkedMs >= this.#wokeMs && mayStill
    if (maySend === this.#maySend) return
    this.#maySend = maySend
    const { logger, onChange } = this.#options
    if (maySend) logger.info(`this recorder owns the budget of ${this.#egress}`)
    else logger.warn(`another recorder may own the budget of ${this.#egress} by now; nothing is sent until it is known`)
    onChange?.(maySend)
  }

  /** @param wake ends it early */
  async #sleep(ms: number, wake?: AbortSignal): Promise<boolean> {
    const { signal } = this.#ended
    if (!signal.aborted) await this.#clock.sleep(ms, wake ?? signal).catch(() => undefined)
    return !signal.aborted
  }

  async #query(text: string, values: unknown[]): Promise<readonly unknown[]> {
    return (await this.#run(text, values)).rows
  }

  readonly #run: RunQuery = async (text, values) => {
    if (this.#client === undefined) throw new Error('the connection that holds the egress lock is closed')
    try {
      return await this.#client.query<pg.QueryResultRow>(text, [...values])
    } catch (error) {
      this.#options.logger.debug(`egress lock: ${describeDatabaseError(error)}`)
      throw error
    }
  }
}
