import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { counted } from '../runtime/text.js'

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

  /** Ends a lapse. Returns true if there was one of which nothing was said. */
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
