import { type Backoff, backoffMs } from '../../runtime/clock.js'
import { type ExchangeErrorKind, type FailureTraits, failureTraits } from '../errors.js'
import { blockMs, type Departure, firstPauseMs } from './penalty.js'

/** An operation counts as out of order after this many failures in a row, over at least this time. */
const failuresToOpen = 10
const minFailingMs = 2_000
const pauses = { minMs: 1_000, maxMs: 5_000 }
/** Pauses of an operation that the service refuses, up to the length of a block. */
const pausesOfRefused = { minMs: firstPauseMs, maxMs: blockMs }

export type CircuitOutcome = FailureTraits['circuit']

/**
 * The circuit of one operation.
 *
 * closed ──ten failures in a row──▶ open ──a request succeeds──▶ closed
 *
 * While the circuit is open, one request at a time is a probe, which finds out whether the operation works again. Each
 * failure of a probe begins a longer pause. The other requests wait, so that they spend neither budget nor connections.
 * All of them go on when the circuit closes.
 */
export class Circuit {
  #failures = 0
  #firstFailureMs = 0
  /** Number of pauses since the circuit opened; 0 while it is closed. */
  #pauses = 0
  #pausedUntilMs = 0
  #probe: Departure | undefined

  get isOpen(): boolean {
    return this.#pauses > 0
  }

  /** Returns when a request may depart; infinite while a probe is under way, because its end makes room for the next. */
  readyAtMs(): number {
    if (!this.isOpen) return Number.NEGATIVE_INFINITY
    return this.#probe === undefined ? this.#pausedUntilMs : Number.POSITIVE_INFINITY
  }

  depart(departure: Departure): void {
    if (this.isOpen) this.#probe = departure
  }

  /**
   * Takes the end of a departure. Every departure has one, so that no probe stays under way for ever. With `refused` the
   * service refuses the operation as a whole, and `waitMs` is how long it said to wait.
   */
  settle(departure: Departure, outcome: CircuitOutcome | 'refused', nowMs: number, waitMs = 0): void {
    const isProbe = this.#probe === departure
    if (isProbe) this.#probe = undefined
    if (outcome === 'works') this.#close()
    else if (outcome === 'fails') this.#fail(isProbe, nowMs)
    else if (outcome === 'refused' && (isProbe || !this.isOpen)) this.#pause(nowMs, pausesOfRefused, waitMs)
  }

  /** A probe that is still under way is no longer one, because its failure would be the first of a closed circuit. */
  #close(): void {
    this.#failures = 0
    this.#pauses = 0
    this.#probe = undefined
  }

  #fail(isProbe: boolean, nowMs: number): void {
    if (this.#failures++ === 0) this.#firstFailureMs = nowMs
    const isLasting = this.#failures >= failuresToOpen && nowMs - this.#firstFailureMs >= minFailingMs
    // Requests that departed before the circuit opened call for no further pause.
    if (isProbe || (isLasting && !this.isOpen)) this.#pause(nowMs, pauses)
  }

  #pause(nowMs: number, backoff: Backoff, waitMs = 0): void {
    this.#pausedUntilMs = nowMs + Math.max(backoffMs(++this.#pauses, backoff), Math.min(waitMs, blockMs))
  }
}

/** Judges the operation by the outcome of an attempt. */
export function outcomeFor(outcome: 'ok' | ExchangeErrorKind): CircuitOutcome {
  return outcome === 'ok' ? 'works' : failureTraits[outcome].circuit
}
