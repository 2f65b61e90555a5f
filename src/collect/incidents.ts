import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'

interface Incident {
  count: number
  readonly since: number
  lastLoggedAt: number
}

const repeatAfterMs = 30_000

/** Turns a storm of equal failures into one line at its start, one each half minute with a count, and one at its end. */
export class Incidents {
  readonly #open = new Map<string, Incident>()
  readonly #logger: Logger
  readonly #clock: Clock

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger
    this.#clock = clock
  }

  /** @param what names what failed: failures of the same thing are one incident */
  failed(what: string, message: string): void {
    const now = this.#clock.monotonicMs()
    const incident = this.#open.get(what)
    if (incident === undefined) {
      this.#open.set(what, { count: 1, since: now, lastLoggedAt: now })
      this.#logger.warn(`${what}: ${message}`)
      return
    }
    incident.count += 1
    if (now - incident.lastLoggedAt < repeatAfterMs) return
    incident.lastLoggedAt = now
    this.#logger.warn(`${what}: still failing, ${incident.count} times in ${seconds(now - incident.since)}: ${message}`)
  }

  succeeded(what: string): void {
    const incident = this.#open.get(what)
    if (incident === undefined) return
    this.#open.delete(what)
    const duration = seconds(this.#clock.monotonicMs() - incident.since)
    this.#logger.info(`${what}: works again after ${incident.count} failure(s) in ${duration}`)
  }
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`
}
