import { byOperation, type Operation, operations } from '../../market/operation.js'
import type { Clock } from '../../runtime/clock.js'
import type { Logger } from '../../runtime/logger.js'
import type { Right } from '../../runtime/right.js'
import { type Ending, onAbort } from '../../runtime/abort.js'
import { Budget, RoundTrip } from './budget.js'
import { Circuit, type CircuitOutcome } from './circuit.js'
import { type Departure, Penalty, type Settlement } from './penalty.js'
import { type Priority, RequestQueues, type Waiting } from './queues.js'
import { Silence } from './silence.js'
import { minuteMs, secondMs } from '../../market/values.js'

export interface PacerOptions {
  readonly limits: {
    readonly overallPerMinute: number
    readonly perSecond: Readonly<Record<Operation, number>>
  }
  /** How much the time from departure to arrival varies. */
  readonly latencyJitterMs: number
  /**
   * Largest number of requests under way. A further request would wait for a connection of the full pool, and arrive
   * later than its noted departure suggests.
   */
  readonly maxInFlight: number
  readonly clock: Clock
  readonly logger: Logger
  /** Requests wait while it does not hold. */
  readonly right: Right
}

export interface AcquireOptions {
  /** Class of the request. Default `live`. */
  readonly priority?: Priority | undefined
  /** Time by which to send the request, on the monotonic clock. It sets the order within a class. Default: none. */
  readonly deadline?: number | undefined
  /** What the request is about, if it is known. After a rejection, one that had a response is tried first. */
  readonly target?: string | undefined
  /** Ends waiting for a place. */
  readonly signal?: Ending
}

export interface PacerStats {
  readonly waiting: Readonly<Record<Priority, ReturnType<RequestQueues['stats']>>>
  readonly operations: Readonly<Record<Operation, { readonly used: number; readonly limit: number }>>
  readonly overall: { readonly used: number; readonly limit: number }
  readonly inFlight: number
  /** How long every operation still pauses after a rejection. */
  readonly pausedMs: number
  /** 1 at full speed; less for a while after a pause, for the slowest operation, and for hours after a block. */
  readonly rate: number
}

interface Timer {
  readonly wakeAtMs: number
  readonly cancel: () => void
}

/**
 * Milliseconds that are added to a window plus jitter before departures are spaced over it. They are 1.7 % of a second
 * and 0.5 % of a minute. They cover stalls of the event loop and of the server, which add to the jitter.
 */
const operationGuardMs = 17
const overallGuardMs = 300
/** Longest delay of timers that is made up for. A busy machine holds up a timer for less. */
const catchUpMs = 300

/**
 * Decides when each request departs, so that the service never counts more arrivals in a window than it admits.
 * The class `live` goes before `repair`, and `repair` before `backfill`. Within a class the earliest deadline goes
 * first, and equal deadlines go in order of arrival. An operation whose budget is used up, or whose circuit is open,
 * holds back no other.
 */
export class Pacer {
  readonly #clock: Clock
  readonly #maxInFlight: number
  readonly #jitterMs: number
  readonly #right: Right
  readonly #budgets: Readonly<Record<Operation, Budget>>
  readonly #overall: Budget
  readonly #roundTrips: Readonly<Record<Operation, RoundTrip>>
  readonly #circuits = byOperation(() => new Circuit())
  readonly #inFlightOf = byOperation(() => ({ count: 0 }))
  readonly #queues = new RequestQueues()
  readonly #penalty: Penalty
  readonly #silence: Silence
  #sequence = 0
  #inFlight = 0
  #dispatchQueued = false
  #timer: Timer | undefined

  constructor(options: PacerOptions) {
    this.#clock = options.clock
    this.#maxInFlight = options.maxInFlight
    this.#jitterMs = options.latencyJitterMs
    this.#right = options.right
    options.right.onGained(() => this.#beginAfterOther())
    this.#roundTrips = byOperation(() => new RoundTrip(options.latencyJitterMs))
    const startMs = this.#clock.monotonicMs()
    const { latencyJitterMs, limits } = options
    this.#budgets = byOperation((operation) => {
      const limit = limits.perSecond[operation]
      const spacingGuardMs = operationGuardMs
      return new Budget({ limit, windowMs: secondMs, latencyJitterMs, spacingGuardMs, catchUpMs, startMs })
    })
    this.#overall = new Budget({
      limit: limits.overallPerMinute,
      windowMs: minuteMs,
      latencyJitterMs,
      spacingGuardMs: overallGuardMs,
      catchUpMs,
      startMs,
    })
    this.#penalty = new Penalty(options.logger)
    this.#silence = new Silence(latencyJitterMs)
  }

  /**
   * Resolves when the request must be sent at once. Its place is reserved before, because two callers that only check
   * could both pass. The caller must `settle` the departure. Rejects with the signal's reason when the signal aborts.
   */
  acquire(operation: Operation, options: AcquireOptions = {}): Promise<Departure> {
    return new Promise((resolve, reject) => {
      const { signal } = options
      if (signal?.aborted === true) return reject(signal.reason as Error)
      const queue = this.#queues.queue(options.priority ?? 'live', operation)
      const forgetSignal = onAbort(signal, () => {
        queue.remove(request)
        reject(signal?.reason as Error)
        if (this.#queues.wanted().length === 0) this.#cancelTimer()
      })
      const request: Waiting = {
        operation,
        target: options.target,
        deadlineMs: options.deadline ?? Number.POSITIVE_INFINITY,
        sequence: this.#sequence++,
        enqueuedAtMs: this.#clock.monotonicMs(),
        depart: (departure) => {
          forgetSignal()
          resolve(departure)
        },
      }
      queue.push(request)
      this.#dispatchSoon()
    })
  }

  /** Notes that a request leaves only now, after a busy moment or a handshake. Its window begins now. */
  sent(departure: Departure): void {
    const nowMs = this.#clock.monotonicMs()
    this.#silence.sent(departure, nowMs)
    this.#budgets[departure.operation].postpone(departure.number, nowMs)
    this.#overall.postpone(departure.overallNumber, nowMs)
  }

  /**
   * Takes the moment at which a response begins. A response later than the fastest time plus the jitter may have been
   * held up somewhere. Its request then counts as departed that much later. Otherwise the next requests would arrive
   * too soon behind it.
   */
  responded(departure: Departure): void {
    const nowMs = this.#clock.monotonicMs()
    const departedMs = this.#budgets[departure.operation].departedAtMs(departure.number)
    if (departedMs !== undefined) this.#roundTrips[departure.operation].observe(nowMs - departedMs)
    this.#close(departure, nowMs)
    this.#endSilence(departure, nowMs)
    this.#dispatchSoon()
  }

  /** Ends a departure with what its response told about the limits, about its operation and about its target. */
  settle(departure: Departure, settlement: Settlement, outcome: CircuitOutcome = 'unknown', target?: string): void {
    this.#inFlight--
    this.#inFlightOf[departure.operation].count--
    const nowMs = this.#clock.monotonicMs()
    if (settlement.outcome !== 'failed') this.#endSilence(departure, nowMs)
    const isGivenUp = settlement.outcome === 'failed' && settlement.isGivenUp === true
    // A request that failed may have been counted at any time until now, and one that was given up later, too.
    if (!this.#silence.end(departure, nowMs, isGivenUp)) this.#close(departure, nowMs)
    if (settlement.outcome === 'response' && settlement.remaining !== undefined)
      this.#observeRemaining(departure, settlement.remaining, nowMs)
    const isRefused = this.#penalty.settle(departure, settlement, nowMs, target)
    const waitMs = settlement.outcome === 'rate-limited' ? settlement.retryAfterMs : undefined
    this.#circuits[departure.operation].settle(departure, isRefused ? 'refused' : outcome, nowMs, waitMs)
    this.#dispatchSoon()
  }

  #beginAfterOther(): void {
    const nowMs = this.#clock.monotonicMs()
    for (const operation of operations) this.#budgets[operation].beginAfterOther(nowMs)
    this.#overall.beginAfterOther(nowMs)
    this.#dispatchSoon()
  }

  stats(): PacerStats {
    const nowMs = this.#clock.monotonicMs()
    // Requests of an open circuit wait for their operation. Counted here, they would look as if the limits were used up.
    const inOrder = operations.filter((operation) => !this.#circuits[operation].isOpen)
    const waiting = (priority: Priority) => this.#queues.stats(priority, inOrder, nowMs)
    const use = (budget: Budget) => ({ used: budget.used(nowMs), limit: budget.limit })
    return {
      waiting: { live: waiting('live'), repair: waiting('repair'), backfill: waiting('backfill') },
      operations: byOperation((operation) => use(this.#budgets[operation])),
      overall: use(this.#overall),
      inFlight: this.#inFlight,
      pausedMs: Math.max(0, this.#penalty.readyAtMs() - nowMs),
      rate: Math.min(this.#penalty.overallRate(nowMs), ...operations.map((one) => this.#penalty.rateOf(one, nowMs))),
    }
  }

  #endSilence(departure: Departure, nowMs: number): void {
    for (const held of this.#silence.respond(departure, nowMs)) this.#close(held, nowMs)
  }

  /** Dispatching is deferred, so that all requests of one turn are compared before the first departs. */
  #dispatchSoon(): void {
    if (this.#dispatchQueued) return
    this.#dispatchQueued = true
    queueMicrotask(() => {
      this.#dispatchQueued = false
      this.#dispatch()
    })
  }

  #dispatch(): void {
    while (this.#queues.wanted().length > 0) {
      const nowMs = this.#clock.monotonicMs()
      // A settled request and a right that is gained both dispatch again, so these states need no timer.
      if (this.#inFlight >= this.#maxInFlight || this.#penalty.isProbing || !this.#right.check()) return
      for (const held of this.#silence.expire(nowMs)) this.#close(held, nowMs)
      if (!this.#silence.mayDepart) return
      const gateMs = Math.max(this.#overall.readyAtMs(nowMs), this.#penalty.readyAtMs())
      const isReady = (operation: Operation) => this.#readyAtMs(operation, nowMs) <= nowMs
      const request = gateMs <= nowMs ? this.#shift(isReady) : undefined
      if (request === undefined) {
        const readyAtMs = Math.max(gateMs, this.#earliestReadyMs(nowMs))
        const wakeAtMs = Math.min(readyAtMs, this.#silence.heldUntilMs)
        if (wakeAtMs < Number.POSITIVE_INFINITY) this.#wakeAt(wakeAtMs, nowMs)
        return
      }
      const rate = this.#penalty.rateOf(request.operation, nowMs)
      const number = this.#budgets[request.operation].take(nowMs, request.enqueuedAtMs, rate)
      const overallNumber = this.#overall.take(nowMs, request.enqueuedAtMs, this.#penalty.overallRate(nowMs))
      this.#inFlight++
      this.#inFlightOf[request.operation].count++
      const departure = { operation: request.operation, atMs: nowMs, number, overallNumber }
      this.#silence.depart(departure)
      this.#penalty.depart(departure)
      this.#circuits[request.operation].depart(departure)
      request.depart(departure)
    }
  }

  /** Removes and returns the next request. After a rejection, that is one that tells most about the address. */
  #shift(isReady: (operation: Operation) => boolean): Waiting | undefined {
    if (this.#penalty.mustProbe)
      for (const isGood of this.#penalty.goodProbes) {
        const probe = this.#queues.shift(isReady, ({ target }) => isGood(target))
        if (probe !== undefined) return probe
      }
    return this.#queues.shift(isReady)
  }

  /** Returns when the first operation with waiting requests is ready; infinite if none waits. */
  #earliestReadyMs(nowMs: number): number {
    return Math.min(...this.#queues.wanted().map((operation) => this.#readyAtMs(operation, nowMs)))
  }

  #readyAtMs(operation: Operation, nowMs: number): number {
    // An operation takes at most twice as many places as it leaves free. A slow one never takes those of all others.
    const free = this.#maxInFlight - this.#inFlight
    if (this.#inFlightOf[operation].count >= 2 * free) return Number.POSITIVE_INFINITY
    const budget = this.#budgets[operation]
    const ordinaryMs = this.#respondsWithinMs(operation)
    if (this.#silence.mustLeaveRoom(nowMs) && budget.isNearlyTaken(nowMs - ordinaryMs)) return Number.POSITIVE_INFINITY
    return Math.max(budget.readyAtMs(nowMs, ordinaryMs), this.#circuits[operation].readyAtMs())
  }

  #respondsWithinMs(operation: Operation): number {
    return this.#roundTrips[operation].fastestMs + this.#jitterMs
  }

  /**
   * Ends a departure. If its response came late, the service may have counted the request late, so its departure is
   * moved later.
   */
  #close({ operation, number, overallNumber }: Departure, nowMs: number): void {
    const budget = this.#budgets[operation]
    const tookMs = nowMs - (budget.departedAtMs(number) ?? nowMs)
    const ordinaryMs = this.#respondsWithinMs(operation)
    // In the budget of the operation, a request that took more than a second counts as if it had departed now.
    if (tookMs > ordinaryMs) budget.postpone(number, tookMs > secondMs ? nowMs : nowMs - ordinaryMs)
    // In that of the minute, one that took longer than the jitter does: it costs little, and no belief is needed there.
    if (tookMs > this.#jitterMs) this.#overall.postpone(overallNumber, nowMs)
    budget.close(number)
    this.#overall.close(overallNumber)
  }

  #wakeAt(wakeAtMs: number, nowMs: number): void {
    if (this.#timer !== undefined && this.#timer.wakeAtMs <= wakeAtMs) return
    this.#cancelTimer()
    // Timers count whole milliseconds and may fire early. The dispatch then finds no request ready, and waits again.
    const dispatch = () => {
      this.#timer = undefined
      this.#dispatch()
    }
    this.#timer = { wakeAtMs, cancel: this.#clock.after(Math.ceil(wakeAtMs - nowMs), dispatch) }
  }

  /** Cancels the timer, because a timer without waiting requests would keep the process alive. */
  #cancelTimer(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  /**
   * Compares the service's count of an operation with ours. If the service has counted more than all our requests in
   * its window, something else shares the address. The requests of that sender then count in our window, too.
   */
  #observeRemaining(departure: Departure, remaining: number, nowMs: number): void {
    const budget = this.#budgets[departure.operation]
    const counted = budget.limit - remaining
    const ours = budget.countSince(departure.atMs - secondMs - this.#jitterMs - 1)
    // One request more is allowed for, because services differ in whether a request counts itself.
    const others = counted - ours - 1
    if (others <= 0) return
    budget.takeForOthers(nowMs, others)
    this.#overall.takeForOthers(nowMs, others)
  }
}
