import { byOperation, type Operation } from '../../market/operation.js'
import { hourMs } from '../../market/values.js'
import { BoundedMap } from '../../runtime/boundedMap.js'

/** The service has shown this often that it refuses single targets. Further refusals of such are then believed. */
const strikesToBelieve = 2
/** Strikes end after this time without a further refusal. Targets that are refused are requested at least hourly. */
const memoryMs = 2 * hourMs
/** Refusals of an operation without a response in between, from which on they may concern the whole operation. */
const enoughForOperation = 5
/** Refusals in a row, each after responses of others, from which on even "too many requests" is about one alone. */
const enoughAlone = 5

/**
 * Remembers which targets the service refuses. A target is what requests of an operation are about, such as the book of
 * an instrument.
 *
 * Only experience shows that a refusal concerns a target alone. At first each refusal pauses everything. It is a strike
 * if the first request after the pause has a response. After two strikes, further refusals of targets are believed to be
 * their own. The belief ends when one of these targets has a response to its next request, because the refusals then
 * hit targets at random. Counting the refusals of each target by itself would not do. Every refused target would then pause
 * everything five times, which takes hours where many are refused.
 *
 * "Too many requests" is about the address, so nothing is believed of single targets in general. A target or an operation
 * that is refused again and again, and never has a response, is refused alone if others have responses in between.
 */
export class Refusals {
  readonly #admitted = new BoundedMap<true>()
  /** Refusals in a row of targets whose last request was refused. */
  readonly #inARow = new BoundedMap<number>()
  readonly #ofOperation = byOperation(() => ({ sinceResponse: enoughForOperation, responses: 0 }))
  /** Refusals in a row of a target or an operation, and the number of responses of others at the last of them. */
  readonly #streaks = new BoundedMap<{ readonly count: number; readonly responses: number }>()
  #responses = 0
  readonly #believed = new BoundedMap<true>()
  #strikes = 0
  #believedAtMs = Number.NEGATIVE_INFINITY

  /** Returns true for a target whose last request had a response. */
  isAdmitted(target: string | undefined): boolean {
    return target !== undefined && this.#admitted.has(target)
  }

  /** Returns true for a target whose last request was refused. */
  isRefused(target: string | undefined): boolean {
    return target !== undefined && this.#inARow.has(target)
  }

  /** Returns true if refusals of targets are believed to be their own. */
  areBelieved(nowMs: number): boolean {
    if (nowMs - this.#believedAtMs > memoryMs) this.#strikes = 0
    return this.#strikes >= strikesToBelieve
  }

  believe(target: string, nowMs: number): void {
    if (!this.areBelieved(nowMs)) this.#strikes++
    this.#believed.set(target, true)
    this.#believedAtMs = nowMs
  }

  responded(operation: Operation, target: string | undefined): void {
    this.#ofOperation[operation].sinceResponse = 0
    this.#ofOperation[operation].responses++
    this.#responses++
    this.#streaks.delete(operation)
    if (target === undefined) return
    this.#streaks.delete(target)
    if (this.#believed.delete(target) && this.#inARow.get(target) === 1) {
      this.#strikes = 0
      this.#believed.clear()
    }
    this.#admitted.set(target, true)
    this.#inARow.delete(target)
  }

  /** Notes a refusal. Returns true if it may be the target's own, because others of the operation have responses. */
  refused(operation: Operation, target: string | undefined): boolean {
    const ofOperation = this.#ofOperation[operation]
    const hasOthers = ofOperation.sinceResponse < enoughForOperation
    // A target that is known to be refused tells nothing new. Of some history no other may be left to request.
    if (target === undefined || !this.#believed.has(target)) ofOperation.sinceResponse++
    if (target === undefined) return false
    this.#admitted.delete(target)
    this.#inARow.set(target, (this.#inARow.get(target) ?? 0) + 1)
    return hasOthers
  }

  /** Notes a refusal of which the service does not say what it is about. Tells who is alone with it. */
  refusedAlone(operation: Operation, target: string | undefined): 'operation' | 'target' | undefined {
    const isTarget = target !== undefined && this.#isAlone(target, this.#ofOperation[operation].responses)
    if (this.#isAlone(operation, this.#responses)) return 'operation'
    return isTarget ? 'target' : undefined
  }

  #isAlone(name: string, responses: number): boolean {
    const before = this.#streaks.get(name)
    const count = before === undefined ? 1 : before.count + (responses > before.responses ? 1 : 0)
    this.#streaks.set(name, { count, responses })
    return count > enoughAlone
  }
}
