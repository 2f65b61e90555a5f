import type { Departure } from './penalty.js'

/** Nothing is taken to respond after so long without any response. */
const silentAfterMs = 250
/** How long a request that was given up keeps its places while nothing responds. */
const heldMs = 60_000

/**
 * Knows when nothing responds, because the network or the service stands still. A request that is given up then may
 * still wait somewhere on the way, and arrive together with all later ones once it goes on. Two rules follow:
 *
 * - Such a request keeps its places until a later one has a response. All that was held back has then arrived. Without
 *   any response it keeps them for a minute.
 * - As long as it does, one request at a time departs, and finds out when it goes on. For these, each limit leaves some
 *   places free once nothing responds (`Budget.isNearlyTaken`). Small limits have few or none to leave, and all can be
 *   taken where an ordinary response takes most of a second. Nothing may then depart for a minute.
 */
export class Silence {
  readonly #jitterMs: number
  /** Departures that have no response yet, and when they were sent. */
  readonly #awaited = new Map<Departure, number>()
  /** Those of them that were sent for certain. Others may be waiting for a connection. */
  readonly #sent = new WeakSet<Departure>()
  /** Departures that were given up and keep their places: when they were sent, and until when. */
  readonly #held = new Map<Departure, { readonly sentMs: number; readonly untilMs: number }>()
  #respondedMs = Number.NEGATIVE_INFINITY
  /** When the newest request with a response was sent. */
  #newestSentMs = Number.NEGATIVE_INFINITY

  constructor(jitterMs: number) {
    this.#jitterMs = jitterMs
  }

  depart(departure: Departure): void {
    this.#awaited.set(departure, departure.atMs)
  }

  sent(departure: Departure, nowMs: number): void {
    if (!this.#awaited.has(departure)) return
    this.#awaited.set(departure, nowMs)
    this.#sent.add(departure)
  }

  /** Notes the response of a departure. Returns the departures that keep their places no longer. */
  respond(departure: Departure, nowMs: number): Departure[] {
    const sentMs = this.#awaited.get(departure)
    if (sentMs === undefined) return []
    this.#awaited.delete(departure)
    this.#respondedMs = nowMs
    this.#newestSentMs = Math.max(this.#newestSentMs, sentMs)
    return this.#release((held) => this.#hasPassed(held.sentMs))
  }

  /** Notes the end of a departure. Returns true if it keeps its places, because it was given up and may still arrive. */
  end(departure: Departure, nowMs: number, isGivenUp: boolean): boolean {
    const sentMs = this.#awaited.get(departure)
    if (sentMs === undefined) return false
    this.#awaited.delete(departure)
    if (!isGivenUp || !this.#sent.has(departure) || this.#hasPassed(sentMs)) return false
    this.#held.set(departure, { sentMs, untilMs: nowMs + heldMs })
    return true
  }

  /** Returns the departures whose time is over, and which keep their places no longer. */
  expire(nowMs: number): Departure[] {
    return this.#release((held) => held.untilMs <= nowMs)
  }

  /** When the next departure is over that keeps its places; infinite without one. */
  get heldUntilMs(): number {
    const [oldest] = this.#held.values()
    return oldest?.untilMs ?? Number.POSITIVE_INFINITY
  }

  /** Returns true while nothing responds, and no request finds out yet when something does. */
  mustLeaveRoom(nowMs: number): boolean {
    return this.#held.size === 0 && nowMs - this.#respondedMs > silentAfterMs
  }

  /** Returns false while one request finds out if anything responds. */
  get mayDepart(): boolean {
    return this.#held.size === 0 || this.#awaited.size === 0
  }

  /** Returns true if a request that was sent later, even by the jitter, has had a response. */
  #hasPassed(sentMs: number): boolean {
    return sentMs + this.#jitterMs <= this.#newestSentMs
  }

  #release(isOver: (held: { readonly sentMs: number; readonly untilMs: number }) => boolean): Departure[] {
    const over = [...this.#held].filter(([, held]) => isOver(held)).map(([departure]) => departure)
    for (const departure of over) this.#held.delete(departure)
    return over
  }
}
