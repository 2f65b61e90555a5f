import { dayMs, type MachineMs, serviceMs, type ServiceMs } from '../market/values.js'
import { type Clock, type StretchStart, stretchFrom, suspendedMs } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'

/** The times of a response that has just come, by both clocks. */
export interface ResponseTimes {
  /** The service's clock when it made the response. */
  readonly requestTime: ServiceMs
  /** Our clock when the response was there. */
  readonly receivedAt: MachineMs
  /** The monotonic clock when the response was there. It is judged somewhat later. */
  readonly receivedMs: number
  /** Time from the departure of the request to the response. */
  readonly roundTripMs: number
}

type Judgment =
  | { readonly isBelieved: true; readonly serviceTime: ServiceMs }
  | { readonly isBelieved: false; readonly aheadMs: number }

/** Largest difference of a believed response from our clock, or from the service's clock as known before. */
export const toleranceMs = 5 * 60_000
/** Our clock counts as wrong when this many responses in a row contradict it in the same way, for this long. */
const responsesToConfirm = 10
const confirmAfterMs = 30_000
const agreementMs = 30_000
/** Our clock never counts as wrong by more than this. A clock that is off by more must be set. */
const maxSkewMs = dayMs
/** Largest correction of the reference, as a share of the time that passes. Clocks do not drift faster than this. */
const slew = 0.01
/** A larger skew is logged, because it misleads readers who compare `received_at` with `ts`. */
const warnBeyondMs = 1_000
/** A measured skew is replaced after this time, even by a less certain one. */
const replaceAfterMs = 60_000
/** Clocks are corrected now and then. A bound is exact to this, not more. */
const boundToleranceMs = 1_000
/** Number of responses that bound the time of the next one. */
const maxWitnesses = 128
/** Chance may have made most of fewer responses come from one server. The lowest bound counts then. */
const fewWitnesses = 32
/** Until this many responses have come in at least this time, our clock bounds the service's time, too. */
const responsesToBound = 16
const boundAfterMs = 10_000
/** A step counts at once that all of the newest responses but one say: those of this time, and at least this many. */
const newestMs = 30_000
const minNewest = 20
/** A longer suspension of the machine moves what was known of the service's clock. A shorter one may be inexact. */
const shortestSuspensionMs = 1_000

/** A believed response that bounds the time of later ones. */
interface Witness {
  /** Upper bound of the service's time minus the monotonic clock. */
  readonly boundMs: number
  readonly atMs: number
}

interface Skew {
  /** How far our clock is ahead of the service's, in milliseconds. */
  readonly aheadMs: number
  /** Half the round trip. The true skew differs from `aheadMs` by no more than this. */
  readonly uncertaintyMs: number
}

/**
 * Tells whether the time in a response can be the service's. One response with a wrong clock would do lasting harm:
 * rows from the future would stay the newest ones of their instrument.
 *
 * A response is believed if its time agrees with our clock, or with the service's clock as earlier responses showed it.
 * If this machine's clock is wrong, all responses disagree with it in the same way. After a while they are believed.
 *
 * One server of several may be minutes ahead of the others, so no response tells what is over. The time that is judged
 * by is the earliest of the response's own and the bound by most others. A response was made after its request had left,
 * and no clock runs faster than ours, so it bounds the time of later ones from above. Before enough have come, our clock
 * is a bound, too: if it is right, the first responses cannot be from the future, and if it is behind, it only delays.
 * After a step of the service's clock, too, judgments are late until the bound follows.
 *
 * It also measures our clock against the service's, by the believed response with the shortest round trip.
 */
export class ServiceClock {
  readonly #clock: Clock
  readonly #logger: Logger
  /** The service's time minus the monotonic clock, and when this offset was found. */
  #reference: { readonly offsetMs: number; readonly atMs: number } | undefined
  /** Responses in a row that disagree with our clock and agree with each other. */
  #candidate: { readonly offsetMs: number; readonly sinceMs: number; responses: number } | undefined

  /** The newest believed responses. */
  #witnesses: Witness[] = []
  /** The bound by most of them. */
  #boundMs = Infinity
  /** When the first witness came. Null once there were enough, or once all responses contradicted our clock. */
  #needsMachineSinceMs: number | null = Infinity
  #judgedAt: StretchStart | undefined

  #skew: (Skew & { readonly atMs: number }) | undefined
  #isWarned = false

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock
    this.#logger = logger
  }

  /** The measured skew; undefined before the first response. */
  get skew(): Skew | undefined {
    return this.#skew
  }

  /** Time of the service's clock, even if this machine's clock was set since; null before the first response. */
  now(): ServiceMs | null {
    if (this.#reference === undefined) return null
    const nowMs = this.#clock.monotonicMs()
    return serviceMs(Math.floor(Math.min(nowMs + this.#reference.offsetMs, this.#latest(nowMs, this.#clock.now()))))
  }

  /** Returns the latest time that the service's clock can have. */
  #latest(nowMs: number, machineNow: MachineMs): number {
    const latest = nowMs + this.#boundMs
    return this.#needsMachineSinceMs === null ? latest : Math.min(latest, machineNow)
  }

  /**
   * Judges a response. `serviceTime` is the time of one that is believed. `aheadMs` tells how far one that is not
   * believed is ahead of our clock; negative if behind.
   */
  judge(times: ResponseTimes): Judgment {
    const { requestTime, receivedAt, receivedMs: nowMs } = times
    this.#noticeSuspension()
    const offsetMs = requestTime - nowMs
    const aheadMs = requestTime - receivedAt
    const aheadOfReferenceMs = this.#reference === undefined ? Infinity : offsetMs - this.#reference.offsetMs
    if (Math.abs(aheadMs) <= toleranceMs) this.#believe(offsetMs, nowMs)
    else if (Math.abs(aheadOfReferenceMs) <= toleranceMs) this.#follow(offsetMs, nowMs)
    else if (this.#isConfirmed(offsetMs, aheadMs, nowMs)) {
      this.#believe(offsetMs, nowMs)
      this.#witnesses = []
      this.#boundMs = Infinity
      this.#needsMachineSinceMs = null
    } else return { isBelieved: false, aheadMs }
    this.#candidate = undefined
    this.#measure(times, nowMs)
    const latest = serviceMs(Math.floor(this.#latest(nowMs, receivedAt)))
    const serviceTime = requestTime - latest > boundToleranceMs ? latest : requestTime
    // Times are whole milliseconds, cut off.
    this.#addWitness({ boundMs: offsetMs + times.roundTripMs + 1, atMs: nowMs })
    return { isBelieved: true, serviceTime }
  }

  /** During a suspension the monotonic clock stands still, and the service's goes on. */
  #noticeSuspension(): void {
    const before = this.#judgedAt
    this.#judgedAt = stretchFrom(this.#clock)
    const ms = before === undefined ? 0 : suspendedMs(before, this.#judgedAt)
    if (ms < shortestSuspensionMs) return
    const shiftMs = ms + shortestSuspensionMs
    this.#witnesses = this.#witnesses.map(({ boundMs, atMs }) => ({ boundMs: boundMs + shiftMs, atMs }))
    this.#boundMs += shiftMs
    if (this.#reference !== undefined) this.#believe(this.#reference.offsetMs + ms, this.#reference.atMs)
  }

  /**
   * Takes the bound that more than half of the witnesses agree with, by a margin for chance. So a third of wrong clocks
   * has no say. A later bound counts if all of the newest witnesses but one agree with it: the service's clock was set.
   */
  #addWitness(witness: Witness): void {
    const { atMs } = witness
    const witnesses = [...this.#witnesses.slice(1 - maxWitnesses), witness]
    this.#witnesses = witnesses
    const { length } = witnesses
    const isNewest = (other: Witness, place: number) => place >= length - minNewest || atMs - other.atMs <= newestMs
    const most = length < fewWitnesses ? 0 : Math.floor(length / 2 - Math.sqrt(length))
    const boundByNewest = length < minNewest ? -Infinity : boundAt(1, witnesses.filter(isNewest))
    this.#boundMs = Math.max(boundAt(most, witnesses), boundByNewest)
    if (this.#needsMachineSinceMs === null) return
    this.#needsMachineSinceMs = Math.min(this.#needsMachineSinceMs, atMs)
    if (length >= responsesToBound && atMs - this.#needsMachineSinceMs >= boundAfterMs) this.#needsMachineSinceMs = null
  }

  #believe(offsetMs: number, atMs: number): void {
    this.#reference = { offsetMs, atMs }
  }

  /** The reference moves slowly, so that a row of small steps cannot lead it astray. */
  #follow(offsetMs: number, atMs: number): void {
    const before = this.#reference ?? { offsetMs, atMs }
    const maxStepMs = (atMs - before.atMs) * slew
    const step = Math.min(maxStepMs, Math.max(-maxStepMs, offsetMs - before.offsetMs))
    this.#believe(before.offsetMs + step, atMs)
  }

  #isConfirmed(offsetMs: number, aheadMs: number, nowMs: number): boolean {
    if (Math.abs(aheadMs) > maxSkewMs) {
      this.#candidate = undefined
      return false
    }
    const candidate = this.#candidate
    if (candidate === undefined || Math.abs(offsetMs - candidate.offsetMs) > agreementMs) {
      this.#candidate = { offsetMs, sinceMs: nowMs, responses: 1 }
      return false
    }
    candidate.responses += 1
    return candidate.responses >= responsesToConfirm && nowMs - candidate.sinceMs >= confirmAfterMs
  }

  #measure({ requestTime, receivedAt, roundTripMs }: ResponseTimes, atMs: number): void {
    const before = this.#skew
    const uncertaintyMs = roundTripMs / 2
    const isWorse = before !== undefined && uncertaintyMs > before.uncertaintyMs && atMs - before.atMs <= replaceAfterMs
    if (isWorse) return
    const aheadMs = receivedAt - uncertaintyMs - requestTime
    this.#skew = { aheadMs, uncertaintyMs, atMs }
    const isOff = Math.abs(aheadMs) - uncertaintyMs > warnBeyondMs
    if (isOff === this.#isWarned) return
    this.#isWarned = isOff
    const off = `${(Math.abs(aheadMs) / 1000).toFixed(1)} s ${aheadMs > 0 ? 'ahead of' : 'behind'} the service's`
    if (isOff)
      this.#logger.warn(
        `clock: this machine's is ${off}; received_at is off by that; check this machine's time service`,
      )
    else this.#logger.info("clock: this machine's agrees with the service's again")
  }
}

/** Returns the bound at a place of the witnesses, lowest first. */
function boundAt(place: number, witnesses: readonly Witness[]): number {
  return Float64Array.from(witnesses, ({ boundMs }) => boundMs).sort()[place] ?? Infinity
}
