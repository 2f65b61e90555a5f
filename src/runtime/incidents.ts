import type { Clock } from './clock.js'
import type { Logger } from './logger.js'

/** Equal failures of one thing, from the first to the first success after them. */
export interface IncidentReport {
  /** Name of the thing that failed. */
  readonly what: string
  /** Message of the last failure. */
  readonly message: string
  readonly count: number
  readonly since: number
  readonly lastAt: number
  /** Time of the recovery; null while the failure lasts. */
  readonly until: number | null
}

interface Incident {
  readonly what: string
  /** Parts that have failed and have not worked since. */
  readonly failing: Set<string>
  message: string
  count: number
  readonly since: number
  readonly sinceMonotonicMs: number
  lastMonotonicMs: number
  lastAt: number
  lastLoggedAt: number
  until: number | null
}

const repeatAfterMs = 30_000
/** A storm in which some attempts succeed is one incident: it is over when nothing has failed for so long. */
const quietMs = 10_000
/** Enough for a person to read; what happened before is in the log. */
const kept = 100

/** Turns a storm of equal failures into one line at its start, one each half minute with a count, and one at its end. */
export class Incidents {
  readonly #open = new Map<string, Incident>()
  readonly #recent: Incident[] = []
  readonly #logger: Logger
  readonly #clock: Clock

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger
    this.#clock = clock
  }

  /**
   * @param what names what failed: failures of the same thing are one incident
   * @param part where a thing has parts that work or fail each by itself: that others work does not end the incident
   */
  failed(what: string, message: string, part = ''): void {
    const now = this.#clock.monotonicMs()
    const at = this.#clock.now()
    const incident = this.#open.get(what)
    if (incident === undefined) {
      const opened: Incident = {
        what,
        failing: new Set([part]),
        message,
        count: 1,
        since: at,
        sinceMonotonicMs: now,
        lastMonotonicMs: now,
        lastAt: at,
        lastLoggedAt: now,
        until: null,
      }
      this.#open.set(what, opened)
      this.#recent.unshift(opened)
      if (this.#recent.length > kept) this.#recent.pop()
      this.#logger.warn(`${what}: ${message}`)
      return
    }
    incident.failing.add(part)
    incident.count += 1
    incident.message = message
    incident.lastAt = at
    incident.lastMonotonicMs = now
    if (now - incident.lastLoggedAt < repeatAfterMs) return
    incident.lastLoggedAt = now
    this.#logger.warn(
      `${what}: still failing, ${incident.count} times in ${seconds(now - incident.sinceMonotonicMs)}: ${message}`,
    )
  }

  /** The newest first, at most a hundred: those that last and those that are over. */
  recent(): readonly IncidentReport[] {
    return this.#recent
  }

  /** Ends an incident, once every part that failed works again and it has been quiet for a while. */
  succeeded(what: string, part = ''): void {
    const incident = this.#open.get(what)
    incident?.failing.delete(part)
    if (
      incident === undefined ||
      incident.failing.size > 0 ||
      this.#clock.monotonicMs() - incident.lastMonotonicMs < quietMs
    )
      return
    this.#end(incident, 'works again')
  }

  /**
   * Says which parts there still are; '' for a thing without any. The others neither fail nor work any more: an incident of theirs
   * alone is over, as nobody would say so later.
   */
  keepOnly(what: string, parts: ReadonlySet<string>): void {
    const incident = this.#open.get(what)
    if (incident === undefined) return
    const areGone = [...incident.failing].filter((part) => !parts.has(part))
    for (const part of areGone) incident.failing.delete(part)
    if (incident.failing.size > 0) return
    // Remaining parts that work report that themselves.
    if (areGone.length > 0 || parts.size === 0) this.#end(incident, 'no longer asked for')
  }

  #end(incident: Incident, how: string): void {
    this.#open.delete(incident.what)
    incident.until = this.#clock.now()
    const duration = seconds(this.#clock.monotonicMs() - incident.sinceMonotonicMs)
    this.#logger.info(`${incident.what}: ${how} after ${duration}, in which it failed ${timesOf(incident.count)}`)
  }
}

function timesOf(count: number): string {
  return count === 1 ? 'once' : `${count} times`
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`
}
