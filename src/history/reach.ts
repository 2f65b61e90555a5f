import type { Clock } from '../runtime/clock.js'
import type { Operation } from '../market/operation.js'
import { dayMs, hourMs, type MachineMs } from '../market/values.js'

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

/** State of an operation. `resting`: its rows are unusable. `absent`: the service lacks it. Both end after a day. */
type OperationState = 'unknown' | 'present' | 'absent' | 'resting'

const restMs = dayMs

/** Keeps the states of operations that are not in the specification, as far as this process knows them. */
export class OperationStates {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #states = new Map<Operation, { readonly state: OperationState; readonly untilMs: number }>()

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  note(operation: Operation, state: Exclude<OperationState, 'unknown'>): void {
    const untilMs = state === 'present' ? Number.POSITIVE_INFINITY : this.#clock.monotonicMs() + restMs
    this.#states.set(operation, { state, untilMs })
  }

  stateOf(operation: Operation): OperationState {
    const known = this.#states.get(operation)
    return known === undefined || this.#clock.monotonicMs() >= known.untilMs ? 'unknown' : known.state
  }
}
