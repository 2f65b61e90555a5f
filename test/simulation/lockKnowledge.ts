import { lockNames } from '../../src/db/locks/names.js'

/** What a recorder and the others can know of each other. Times are of the world. */
export interface Presence {
  /** When what runs on the machine was started. */
  readonly startedMs: number | undefined
  /** When that was first told anything of the right to send; undefined before. */
  readonly firstHeardMs: number | undefined
  /** Since when the others see it wait for the right to send, or have it, on the session that it had last; undefined before the first. */
  readonly visibleSinceMs: number | undefined
  /** It goes by having been told that nobody else is there: infinite while it does. */
  readonly aloneUntilMs: number
}

/** A result of the database that a recorder has received. */
export interface Received {
  readonly session: object
  readonly statement: { readonly text: string; readonly values?: unknown }
  readonly value: unknown
}

const takes = /^\s*insert into recorder\.lock as known\b/
const counts = /^\s*select count\(\*\)::int as holders from recorder\.lock l\b/

/** Follows what the recorder of a machine is told of the right to send from an address. */
export class LockKnowledge {
  readonly #right: string
  readonly #standby: string
  #startedMs: number | undefined
  #firstHeardMs: number | undefined
  #session: object | undefined
  #visibleSinceMs: number | undefined
  #aloneUntilMs = -Infinity

  constructor(egress: string) {
    this.#right = lockNames.egress(egress)
    this.#standby = lockNames.egressStandby(egress)
  }

  get presence(): Presence {
    return {
      startedMs: this.#startedMs,
      firstHeardMs: this.#firstHeardMs,
      visibleSinceMs: this.#visibleSinceMs,
      aloneUntilMs: this.#aloneUntilMs,
    }
  }

  /** Another recorder begins on the machine: it knows nothing yet. */
  begins(nowMs: number): void {
    this.#startedMs = nowMs
    this.#firstHeardMs = undefined
    this.#session = undefined
    this.#visibleSinceMs = undefined
    this.#isToldOfAnother(nowMs)
  }

  hears({ session, statement: { text, values }, value }: Received, nowMs: number): void {
    if (!Array.isArray(values)) return
    const name: unknown = values[0]
    const { rows } = value as { readonly rows: readonly unknown[] }
    const isOfRight = name === this.#right || name === this.#standby
    // That the schema is there, for instance, says nothing of who may send.
    if (isOfRight) this.#firstHeardMs ??= nowMs
    if (isOfRight && takes.test(text)) {
      if (rows.length === 0) this.#isToldOfAnother(nowMs)
      else if (this.#session !== session) {
        this.#session = session
        this.#visibleSinceMs = nowMs
      }
    } else if (counts.test(text) && name === this.#standby) {
      if ((rows[0] as { readonly holders: number }).holders > 0) this.#isToldOfAnother(nowMs)
      else this.#aloneUntilMs = Infinity
    }
  }

  #isToldOfAnother(nowMs: number): void {
    this.#aloneUntilMs = Math.min(this.#aloneUntilMs, nowMs)
  }
}
