import { type Clock, elapsedMs, type Moment } from '../runtime/clock.js'

/** How long a proof allows a recorder to send, counted from when its request left. */
export const rightMs = 3_000
/** How long a row must be seen unrenewed before another recorder takes it. The half second is for clocks and timers. */
export const leaseMs = rightMs + 500

/** Why a renewal failed: the database gives the row to nobody now, or its state is unknown. */
type Failure = 'given to nobody' | 'unknown'

/** The right of one recorder to send, as far as the recorder knows. */
export class SendingRight {
  readonly #clock: Clock
  #provenAt: Moment | null = null
  #isOwner = false
  /** True if another recorder was waiting for the address at the last proof. */
  #isWaitedFor = false
  /** When the database was last asked. */
  #askedAt: Moment | null = null
  #hasSlept = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Returns true if the machine was suspended since the last proof. Another recorder may have come and taken the row. */
  get hasSlept(): boolean {
    return this.#hasSlept
  }

  /** Records that the database confirmed this recorder's ownership. */
  proven(sentAt: Moment, isWaitedFor: boolean): void {
    this.#provenAt = sentAt
    this.#isOwner = true
    this.#isWaitedFor = isWaitedFor
    this.#askedAt = sentAt
    this.#hasSlept = false
  }

  /**
   * Records a failed renewal. If nobody can be given the row, a right that still holds is extended. While no recorder
   * waits, every failure extends the right, even one that has ended. On a machine that was suspended, none does.
   */
  failed(sentAt: Moment, failure: Failure): void {
    const before = this.#askedAt
    this.#askedAt = sentAt
    // Rule 6 of lease.ts. During a suspension the monotonic clock stands still, and the wall clock goes on.
    if (before !== null && sentAt.wall - before.wall - (sentAt.ms - before.ms) >= rightMs) this.#hasSlept = true
    if (this.#hasSlept) return
    // The process was stopped meanwhile, so this request says nothing about the present.
    if (elapsedMs(this.#clock, sentAt) >= rightMs) return
    // Rules 5 and 3.
    if (!this.#isWaitedFor || (failure === 'given to nobody' && this.holds())) this.#provenAt = sentAt
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
