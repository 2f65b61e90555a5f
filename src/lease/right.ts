import { type Clock, elapsedMs, type StretchStart, suspendedMs } from '../runtime/clock.js'
import { lockFolder } from '../runtime/folderLock.js'
import { Right } from '../runtime/right.js'
import type { Logger } from '../runtime/logger.js'
import { counted } from '../runtime/text.js'

/** How long a recorder may send after the database confirmed its right, counted from the departure of the query. */
export const rightMs = 3_000
/** How long a row must stay without renewal before another recorder takes it. Half a second is for inexact timers. */
export const leaseMs = rightMs + 500

/**
 * Why a renewal failed. `takeover prevented`: no recorder can take the row now, as with a full disk. `row locked`: another
 * session locks the row or its table, perhaps a recorder that takes the row. `unknown`: the rest.
 */
type Failure = 'takeover prevented' | 'row locked' | 'unknown'

/** The right of one recorder to send, as far as the recorder knows. */
export class SendingRight {
  readonly #clock: Clock
  #provenAt: StretchStart | null = null
  #isOwner = false
  /** True if another recorder was waiting for the address at the last proof. */
  #isWaitedFor = false
  /** When the database was last asked. */
  #askedAt: StretchStart | null = null
  /** Why the last renewals failed; null after a proof. */
  #failure: Failure | null = null
  #hasSlept = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Returns true if the machine was suspended since the last proof. Another recorder may have come and taken the row. */
  get hasSlept(): boolean {
    return this.#hasSlept
  }

  /** Records that the database confirmed this recorder's ownership. */
  proven(sentAt: StretchStart, isWaitedFor: boolean): void {
    this.#provenAt = sentAt
    this.#isOwner = true
    this.#isWaitedFor = isWaitedFor
    this.#askedAt = sentAt
    this.#failure = null
    this.#hasSlept = false
  }

  /**
   * Records a failed renewal. If nobody waited at the last contact, nobody can take the row soon. The right therefore
   * continues, even after it expired. An expired right needs a second `unknown` failure in a row, because the first may
   * be that of an old connection. If another recorder waits, only a right that holds continues, and only if nobody can
   * take the row. A lock proves that once it has stopped two renewals in a row, because it has then stopped each look,
   * too. It gives back no right that expired. After a suspension of the machine, no failure extends the right.
   */
  failed(sentAt: StretchStart, failure: Failure): void {
    const before = this.#askedAt
    const isRepeated = this.#failure === failure
    this.#askedAt = sentAt
    this.#failure = failure
    // Rule 6 of lease.ts.
    if (before !== null && suspendedMs(before, sentAt) >= rightMs) this.#hasSlept = true
    if (this.#hasSlept) return
    // The process was stopped for 3 s or more during this query, so the failure says nothing about the present.
    if (elapsedMs(this.#clock, sentAt) >= rightMs) return
    // A failure extends the right only if no other recorder can take the row meanwhile: rules 3 and 5 of lease.ts.
    const goesOn = {
      'takeover prevented': !this.#isWaitedFor || this.holds(),
      'row locked': isRepeated && this.holds(),
      unknown: !this.#isWaitedFor && (isRepeated || this.holds()),
    }
    if (goesOn[failure]) this.#provenAt = sentAt
  }

  /** Records that the database denied this recorder's ownership. */
  lost(): void {
    this.#isOwner = false
  }

  /** Returns true if the right holds. After a stop of the process or machine, it needs a new proof. */
  holds(): boolean {
    return this.#isOwner && this.#provenAt !== null && elapsedMs(this.#clock, this.#provenAt) < rightMs
  }
}

/** The right of a command to send before there is a database: a lock file in the data folder. */
class FolderRight extends Right {
  readonly #unlock: () => Promise<void>
  #isHeld = true

  constructor(unlock: () => Promise<void>) {
    super()
    this.#unlock = unlock
  }

  check(): boolean {
    return this.#isHeld
  }

  async release(): Promise<void> {
    this.#isHeld = false
    await this.#unlock()
  }
}

/**
 * Takes the right by the lock of a data folder, and waits while another command has it. The caller must look for a
 * database again once it has the right.
 */
export async function takeFolderRight(folder: string, options: Parameters<typeof lockFolder>[2]): Promise<FolderRight> {
  return new FolderRight(await lockFolder(folder, 'sending', options))
}

/** Length at which a lapse is a warning. Requests that wait for less are only a little late. */
const longMs = 5_000
/** A busy machine has one long lapse after another. Those that follow a warning are only counted for this long. */
const quietMs = 600_000

/**
 * Warns of long lapses: times in which a recorder owns its row and does not send, because it did not renew the row in
 * time. A short one costs nothing but a wait, and asks for nothing.
 */
export class Lapses {
  readonly #egress: string
  readonly #logger: Logger
  readonly #clock: Clock
  #beganMs: number | null = null
  /** Of the lapse of now. */
  #isLong = false
  #isWarned = false
  #counted = 0
  #quietUntilMs = -Infinity

  constructor(egress: string, logger: Logger, clock: Clock) {
    this.#egress = egress
    this.#logger = logger
    this.#clock = clock
  }

  /** Looks at the time. It must be called at least once a second. */
  look(): void {
    const nowMs = this.#clock.monotonicMs()
    if (this.#beganMs === null || this.#isLong || nowMs - this.#beganMs < longMs) return
    this.#isLong = true
    if (nowMs < this.#quietUntilMs) {
      this.#counted += 1
      return
    }
    const why = 'the database is slow, or this machine is too busy'
    const before =
      this.#counted === 0 ? '' : `; ${counted(this.#counted, 'time')} more since the last of these warnings`
    this.#logger.warn(`nothing is sent from ${this.#egress} until its row is renewed: ${why}${before}`)
    this.#isWarned = true
    this.#counted = 0
    this.#quietUntilMs = nowMs + quietMs
  }

  begin(): void {
    this.#beganMs = this.#clock.monotonicMs()
  }

  /** Ends a lapse. Returns true if there was one that was not reported. */
  end(): boolean {
    const wasUnsaid = this.#beganMs !== null && !this.#isWarned
    this.drop()
    return wasUnsaid
  }

  /** Forgets a lapse, since something else than a late renewal ends or explains it. */
  drop(): void {
    this.#beganMs = null
    this.#isLong = false
    this.#isWarned = false
  }
}
