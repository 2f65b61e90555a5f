import { Right } from '../../src/runtime/right.js'

/** A right that a test gives and takes. It holds at first. */
export class TestRight extends Right {
  #holds = true

  check(): boolean {
    return this.#holds
  }

  give(): void {
    this.#holds = true
    this.gained()
  }

  take(): void {
    this.#holds = false
  }
}
