import type { Clock } from '../runtime/clock.js'
import type { Operation } from '../market/operation.js'
import { dayMs, hourMs, type MachineMs, minuteMs } from '../market/values.js'

/** A learned reach expires after this time. The service may reach further, or pages were empty for another reason. */
const trustedMs = hourMs

/** How far back an operation gives candles, as the age of their opening times. All slices of a kind of series share it. */
export class Reach {
  readonly #clock: Pick<Clock, 'now'>
  #known: { readonly ageMs: number; readonly learnedAt: MachineMs } | null = null
  /** Age of a candle that was missing once. A single empty page may be a fault; the second one counts. */
  #suspectedMs: number | null = null

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  /** Returns the age from which the operation lacks candles; null if the age is not known. */
  ageMs(): number | null {
    if (this.#known === null || this.#clock.now() - this.#known.learnedAt > trustedMs) return null
    return this.#known.ageMs
  }

  /** Notes that the operation has given a candle of this age. */
  noteSeen(ageMs: number): void {
    if (this.#suspectedMs !== null && ageMs >= this.#suspectedMs) this.#suspectedMs = null
    const known = this.ageMs()
    if (known !== null && ageMs >= known) this.#set(ageMs + 1)
  }

  /** Notes that the operation did not give a candle of this age, although another operation did. */
  noteMissing(ageMs: number): void {
    const suspected = this.#suspectedMs
    const known = this.ageMs()
    if (suspected === null && known === null) this.#suspectedMs = ageMs
    else if (known === null || ageMs < known) this.#set(Math.min(ageMs, suspected ?? ageMs))
  }

  #set(ageMs: number): void {
    this.#suspectedMs = null
    this.#known = { ageMs, learnedAt: this.#clock.now() }
  }
}

/**
 * State of an operation. `absent`: the service lacks it, as several responses agree. `doubtful`: it was missing of late.
 * `resting`: its rows are unusable. After a while each becomes `unknown`, so that the operation is requested again.
 */
type OperationState = 'unknown' | 'present' | 'absent' | 'doubtful' | 'resting'

/** The news of an operation in a response. `unclear`: a proxy may have answered in place of the service. */
type Told = 'present' | 'absent' | 'unclear' | 'unusable'

/** The waits before an operation that is missing is requested again: the first time, the second, and so on. */
export const absenceWaitsMs = [2 * minuteMs, 5 * minuteMs, 15 * minuteMs, hourMs, 6 * hourMs, dayMs] as const
/** The service lacks an operation after this many responses. A release or a proxy may cause the first ones. */
const agreeing = 3
const restMs = dayMs

interface Known {
  readonly state: OperationState
  readonly untilMs: number
  /** Responses since the last success, one for each wait. */
  readonly missed: number
  /** How many of the last responses said that the operation is absent. */
  readonly agreed: number
}

/** Keeps the states of operations that are not in the specification, as far as this process knows them. */
export class OperationStates {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #known = new Map<Operation, Known>()

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  note(operation: Operation, told: Told): void {
    const next = this.#after(operation, told, this.#clock.monotonicMs())
    if (next !== null) this.#known.set(operation, next)
  }

  stateOf(operation: Operation): OperationState {
    const known = this.#known.get(operation)
    return known === undefined || this.#clock.monotonicMs() >= known.untilMs ? 'unknown' : known.state
  }

  /** Returns true if the operation may be requested now. */
  isAsked(operation: Operation): boolean {
    return ['unknown', 'present'].includes(this.stateOf(operation))
  }

  #after(operation: Operation, told: Told, nowMs: number): Known | null {
    if (told === 'present') return { state: told, untilMs: Number.POSITIVE_INFINITY, missed: 0, agreed: 0 }
    if (told === 'unusable') return { state: 'resting', untilMs: nowMs + restMs, missed: 0, agreed: 0 }
    // Requests that were under way together count once.
    if (!this.isAsked(operation)) return null
    const { missed, agreed } = this.#known.get(operation) ?? { missed: 0, agreed: 0 }
    const agreedNow = told === 'absent' ? agreed + 1 : 0
    return {
      state: agreedNow >= agreeing ? 'absent' : 'doubtful',
      untilMs: nowMs + (absenceWaitsMs[missed] ?? dayMs),
      missed: missed + 1,
      agreed: agreedNow,
    }
  }
}
