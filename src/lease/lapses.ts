import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'

/** Length at which a lapse is a warning. Requests that wait for less are only a little late. */
const longMs = 5_000

/**
 * Warns of long lapses: times in which a recorder owns its row and does not send, because it did not renew the row in
 * time. A short one costs nothing but a wait, and asks for nothing.
 */
export class Lapses {
  readonly #egress: string
  readonly #logger: Logger
  readonly #clock: Clock
  #beganMs: number | null = null
  #isWarned = false

  constructor(egress: string, logger: Logger, clock: Clock) {
    this.#egress = egress
    this.#logger = logger
    this.#clock = clock
  }

  /** Looks at the time. It must be called at least once a second. */
  look(): void {
    if (this.#beganMs === null || this.#isWarned || this.#clock.monotonicMs() - this.#beganMs < longMs) return
    this.#isWarned = true
    const why = 'the database is slow, or this machine is too busy'
    this.#logger.warn(`nothing is sent from ${this.#egress} until its row is renewed: ${why}`)
  }

  begin(): void {
    this.#beganMs = this.#clock.monotonicMs()
  }

  /** Ends a lapse. Returns true if there was a short one, of which nothing was said. */
  end(): boolean {
    const wasShort = this.#beganMs !== null && !this.#isWarned
    this.drop()
    return wasShort
  }

  /** Forgets a lapse, since something else than a late renewal ends or explains it. */
  drop(): void {
    this.#beganMs = null
    this.#isWarned = false
  }
}
