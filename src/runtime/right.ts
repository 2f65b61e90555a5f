/**
 * The right to send requests from an address. A client cannot be made without one, so no caller can forget it. Only
 * `lease/` makes rights.
 */
export abstract class Right {
  readonly #listeners: (() => void)[] = []

  /** Returns true if requests may be sent now. It is asked before each departure, because a right can be lost. */
  abstract check(): boolean

  /** Calls `listener` each time the right is gained. Until a moment before, another process may have sent. */
  onGained(listener: () => void): void {
    this.#listeners.push(listener)
  }

  protected gained(): void {
    for (const listener of this.#listeners) listener()
  }
}
