import type { Operation } from '../market/operation.js'
import type { StreamName } from '../market/stream.js'
import { addMs, type MachineMs } from '../market/values.js'
import { type Clock, type Moment, momentOf } from './clock.js'
import type { Logger } from './logger.js'

/** The things whose failures are incidents. Others recognise an incident by this name. */
type IncidentName =
  | StreamName
  | `${StreamName} rows`
  | `${StreamName} list`
  | Operation
  | `repeated requests of ${Operation}`
  | 'backfill'
  | 'contradicted fills'
  | 'evidence'
  | 'fills budget'
  | 'late responses'
  | 'lost responses'
  | 'lost snapshots'
  | 'retention'
  | 'spool'
  | 'storing'

/** Failures of one thing, until all of its parts work again and nothing fails for a while. */
export interface IncidentReport {
  /** Name of the thing that failed. */
  readonly what: IncidentName
  /** Message of the last failure. */
  readonly message: string
  readonly count: number
  readonly since: number
  readonly lastAt: number
  /** Time of the recovery; null while the failure lasts. */
  readonly until: number | null
}

interface Incident {
  readonly what: IncidentName
  /** Parts that have failed and have not worked since. */
  readonly failing: Set<string>
  message: string
  count: number
  /** False while there were delays alone, and not for long. */
  isReported: boolean
  readonly since: number
  readonly sinceMonotonicMs: number
  lastMonotonicMs: number
  lastAt: MachineMs
  lastLoggedAt: number
  until: number | null
}

const repeatAfterMs = 30_000
/** Time without failures that ends an incident. So a storm of failures with some successes is one incident. */
const quietMs = 10_000
/** Number of kept incidents, enough for a person to read. The log has the earlier ones. */
const kept = 100

/** Logs repeated failures of one thing in few lines: at the start, each half minute with a count, and at the end. */
export class Incidents {
  readonly #open = new Map<IncidentName, Incident>()
  readonly #recent: Incident[] = []
  readonly #logger: Logger
  readonly #clock: Clock

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger
    this.#clock = clock
  }

  /**
   * Reports a failure.
   *
   * @param what name of the thing that failed; failures of the same thing are one incident
   * @param part part of the thing that failed; successes of other parts do not end the incident
   */
  failed(what: IncidentName, message: string, part = ''): void {
    this.#count(what, message, part, true)
  }

  /** Counts a delay, which costs nothing and mostly passes. Delays that go on for half a minute are an incident. */
  delayed(what: IncidentName, message: string, part = ''): void {
    this.#count(what, message, part, false)
  }

  #count(what: IncidentName, message: string, part: string, isFailure: boolean): void {
    const now = this.#clock.monotonicMs()
    const at = this.#clock.now()
    this.#endQuiet()
    const incident = this.#open.get(what) ?? this.#begin(what, message, now, at)
    incident.failing.add(part)
    incident.count += 1
    incident.message = message
    incident.lastAt = at
    incident.lastMonotonicMs = now
    const lastedMs = now - incident.sinceMonotonicMs
    if (!incident.isReported) {
      if (isFailure || lastedMs >= repeatAfterMs) this.#report(incident, now)
      return
    }
    if (now - incident.lastLoggedAt < repeatAfterMs) return
    incident.lastLoggedAt = now
    this.#logger.warn(`${what}: still failing, ${incident.count} times in ${seconds(lastedMs)}: ${message}`)
  }

  /** Returns current and past incidents, newest first, at most a hundred. */
  recent(): readonly IncidentReport[] {
    this.#endQuiet()
    return this.#recent.map(({ what, message, count, since, lastAt, until }) => {
      return { what, message, count, since, lastAt, until }
    })
  }

  /** Reports a success. Ends the incident if all failed parts work again and nothing has failed for a while. */
  succeeded(what: IncidentName, part = ''): void {
    const incident = this.#open.get(what)
    if (incident === undefined) return
    incident.failing.delete(part)
    if (incident.failing.size === 0 && this.#isQuiet(incident)) this.#end(incident, 'works again')
  }

  /** Ends what worked again before it was quiet for long enough. Some things report their success only once. */
  #endQuiet(): void {
    for (const incident of this.#open.values()) {
      const end = { wall: addMs(incident.lastAt, quietMs), ms: incident.lastMonotonicMs + quietMs }
      if (incident.failing.size === 0 && this.#isQuiet(incident)) this.#end(incident, 'works again', end)
    }
  }

  #isQuiet({ lastMonotonicMs }: Incident): boolean {
    return this.#clock.monotonicMs() - lastMonotonicMs >= quietMs
  }

  /**
   * Drops parts that no longer exist; '' is the part of a thing without parts. An incident of dropped parts alone ends,
   * because nobody would report their success.
   */
  keepOnly(what: IncidentName, parts: ReadonlySet<string>): void {
    const incident = this.#open.get(what)
    if (incident === undefined) return
    const areGone = [...incident.failing].filter((part) => !parts.has(part))
    for (const part of areGone) incident.failing.delete(part)
    if (incident.failing.size > 0) return
    // The remaining parts report by themselves that they work.
    if (areGone.length > 0 || parts.size === 0) this.#end(incident, 'no longer asked for')
  }

  #begin(what: IncidentName, message: string, now: number, at: MachineMs): Incident {
    const times = { since: at, lastAt: at, until: null, sinceMonotonicMs: now, lastMonotonicMs: now, lastLoggedAt: now }
    const incident = { what, failing: new Set<string>(), message, count: 0, isReported: false, ...times }
    this.#open.set(what, incident)
    return incident
  }

  #report(incident: Incident, now: number): void {
    const { what, message } = incident
    incident.isReported = true
    incident.lastLoggedAt = now
    this.#recent.unshift(incident)
    if (this.#recent.length > kept) this.#recent.pop()
    this.#logger.warn(`${what}: ${message}`)
  }

  #end(incident: Incident, how: string, at: Moment = momentOf(this.#clock)): void {
    this.#open.delete(incident.what)
    incident.until = at.wall
    if (!incident.isReported) return
    const duration = seconds(at.ms - incident.sinceMonotonicMs)
    const times = incident.count === 1 ? 'once' : `${incident.count} times`
    this.#logger.info(`${incident.what}: ${how} after ${duration}, in which it failed ${times}`)
  }
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`
}
