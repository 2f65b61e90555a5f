import { backoffMs, type Clock } from '../../runtime/clock.js'
import { type Ending, onAbort } from '../../runtime/abort.js'
import { errorKinds, type ExchangeErrorKind } from '../errors.js'

/** An operation counts as out of order after this many failures in a row, over at least this time. */
const failuresToOpen = 10
const minFailingMs = 2_000
const pauses = { minMs: 1_000, maxMs: 5_000 }

/** `unknown`: the request told nothing about the operation, because it was aborted, or rejected by the rate limits. */
type CircuitOutcome = 'works' | 'fails' | 'unknown'

export interface CircuitPass {
  readonly isProbe: boolean
}

/**
 * The circuit of one operation.
 *
 * closed ──ten failures in a row──▶ open ──a probe succeeds──▶ closed
 *
 * While the circuit is open, one request at a time finds out whether the operation works again. The others wait, so
 * that they spend neither budget nor connections. All of them go on when the circuit closes.
 */
export class Circuit {
  readonly #clock: Clock
  readonly #waiting = new Set<() => void>()
  #failures = 0
  #firstFailureMs = 0
  #isOpen = false
  #isProbing = false
  #pauses = 0
  #stopPause: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Resolves when a request may be made, which is at once while the circuit is closed. The caller must call `leave`
   * with the pass. Rejects with the signal's reason.
   */
  async enter(signal: Ending): Promise<CircuitPass> {
    while (this.#isOpen) {
      // The signal may have aborted in the moment in which this request was woken.
      if (signal.aborted) throw signal.reason
      if (!this.#isProbing && this.#stopPause === undefined) {
        this.#isProbing = true
        return { isProbe: true }
      }
      await this.#change(signal)
    }
    if (signal.aborted) throw signal.reason
    return { isProbe: false }
  }

  leave({ isProbe }: CircuitPass, outcome: CircuitOutcome): void {
    if (isProbe) this.#isProbing = false
    if (outcome === 'works') this.#close()
    else if (outcome === 'fails') this.#failed(isProbe)
    this.#wake()
  }

  #failed(isProbe: boolean): void {
    const nowMs = this.#clock.monotonicMs()
    if (this.#failures++ === 0) this.#firstFailureMs = nowMs
    if (this.#isOpen) {
      if (isProbe) this.#pause()
    } else if (this.#failures >= failuresToOpen && nowMs - this.#firstFailureMs >= minFailingMs) {
      this.#isOpen = true
      this.#pauses = 0
      this.#pause()
    }
  }

  #close(): void {
    this.#failures = 0
    this.#isOpen = false
    this.#stopPause?.()
    this.#stopPause = undefined
  }

  /** Lets no probe begin for a while. */
  #pause(): void {
    this.#stopPause?.()
    this.#pauses++
    this.#stopPause = this.#clock.after(backoffMs(this.#pauses, pauses), () => {
      this.#stopPause = undefined
      this.#wake()
    })
  }

  #wake(): void {
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const wake of waiting) wake()
  }

  #change(signal: Ending): Promise<void> {
    return new Promise((resolve, reject) => {
      const wake = () => {
        forget()
        resolve()
      }
      const forget = onAbort(signal, () => {
        this.#waiting.delete(wake)
        reject(signal.reason as Error)
      })
      this.#waiting.add(wake)
    })
  }
}

/** Judges the operation by the outcome of an attempt. */
export function outcomeFor(outcome: 'ok' | ExchangeErrorKind): CircuitOutcome {
  if (outcome === 'ok') return 'works'
  if (errorKinds[outcome].isOutOfOrder === true) return 'fails'
  return outcome === 'aborted' || outcome === 'rate-limited' || outcome === 'blocked' ? 'unknown' : 'works'
}
