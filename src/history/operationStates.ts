import type { Operation } from '../market/stream.js'
import { dayMs } from '../market/values.js'
import type { Clock } from '../runtime/clock.js'

/** `resting`: its rows cannot be used. `absent`: the service does not have it. Both end after a day. */
export type OperationState = 'unknown' | 'present' | 'absent' | 'resting'

const restMs = dayMs

/** Operations beside the specification, as far as this process knows them. */
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
