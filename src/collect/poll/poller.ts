import type { Batch } from '../../ledger/batch.js'

/** Something that keeps asking for the targets it is given until it is stopped. */
export interface Poller<Target> {
  /**
   * Replaces the targets, the most wanted first. Those that stay are not disturbed.
   *
   * @param places for how many there is room, where the poller decides who gets it; by default for all
   */
  retarget(targets: readonly Target[], places?: number): void
  /** Asks for all targets now; resolves to how many of them were answered. Only for what the wall clock triggers. */
  pollAll?(): Promise<'all' | 'some' | 'none'>
  /** Learns that these responses were stored on the disk and had to make room there. */
  dropped?(batches: readonly Batch[]): void
  /** Resolves when nothing of it is under way any more. */
  stop(): Promise<void>
}

/** Runs at most one poll for a key at a time; one that comes too early is left out and counted. */
export class Exclusive {
  readonly #running = new Map<string, Promise<unknown>>()

  /** Returns whether the work was started. */
  run(key: string, work: () => Promise<unknown>): boolean {
    if (this.#running.has(key)) return false
    const running = work().finally(() => this.#running.delete(key))
    this.#running.set(key, running)
    return true
  }

  async idle(): Promise<void> {
    await Promise.all(this.#running.values())
  }
}
