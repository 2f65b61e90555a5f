import { type Clock, elapsedMs, type Moment } from '../runtime/clock.js'

/** How long a proof allows to send, counted from when the question was sent. */
export const rightMs = 3_000
/** How long a row must be seen unrenewed before another recorder takes it: the right, and half a second for clocks and timers. */
export const leaseMs = rightMs + 500

/** Why a renewal failed: the database gives the row to nobody at the moment, or nothing is known. */
type Failure = 'given to nobody' | 'unknown'

/** The right of one recorder to send, as far as that recorder knows. */
export class SendingRight {
  readonly #clock: Clock
  #provenAt: Moment | null = null
  #isOwner = false
  /** Another recorder was waiting for the address at the last proof. */
  #isWaitedFor = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get isWaitedFor(): boolean {
    return this.#isWaitedFor
  }

  /** The database has said that the row is this recorder's. */
  proven(sentAt: Moment, isWaitedFor: boolean): void {
    this.#provenAt = sentAt
    this.#isOwner = true
    this.#isWaitedFor = isWaitedFor
  }

  /**
   * A renewal has failed. Where nobody can be given the row, a right that still holds is extended. Without a recorder that waits,
   * every failure extends it, also one that has ended.
   */
  failed(sentAt: Moment, failure: Failure): void {
    // The process was stopped meanwhile: what it asked before says nothing of now.
    if (elapsedMs(this.#clock, sentAt) >= rightMs) return
    if (!this.#isWaitedFor || (failure === 'given to nobody' && this.holds())) this.#provenAt = sentAt
  }

  /** The database has said that the row is not this recorder's. */
  lost(): void {
    this.#isOwner = false
  }

  /** False in a process that was stopped, or on a machine that was suspended, until there is a new proof. */
  holds(): boolean {
    return this.#isOwner && this.#provenAt !== null && elapsedMs(this.#clock, this.#provenAt) < rightMs
  }
}
