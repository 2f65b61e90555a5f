import { leaseMs } from '../../src/lease/right.js'

/** Mutual knowledge of a recorder and the others. Times are the world's. */
export interface Presence {
  /** Start of the recorder on the machine. */
  readonly startedMs: number | undefined
  /** When the recorder first read anything about the right to send; undefined before. */
  readonly firstHeardMs: number | undefined
  /** Since when the others see that it waits for the right to send, or has it; undefined while they do not. */
  readonly visibleSinceMs: number | undefined
  /** Until when it relies on having read that nobody else is there; infinite while it still reads so. */
  readonly aloneUntilMs: number
  /** The recorder that ran on the machine before; undefined without one. */
  readonly before?: Pick<Presence, 'startedMs' | 'firstHeardMs'> | undefined
}

/** A result of the database that a recorder has received. */
export interface Received {
  readonly statement: { readonly text: string; readonly values?: unknown }
  readonly value: unknown
}

const takes = /^\s*insert into recorder\.lease as known\b/
const looks = /^\s*update recorder\.lease set waited_until\b/
const renews = /^\s*with mine as \(\s*update recorder\.lease set until\b/

/** Follows what the recorder of a machine reads about the right to send from an address. */
export class LeaseKnowledge {
  readonly #egress: string
  #startedMs: number | undefined
  #firstHeardMs: number | undefined
  #hasHadRight = false
  #visible: { readonly sinceMs: number; readonly untilMs: number } | undefined
  #aloneUntilMs = -Infinity
  #before: Presence['before']

  constructor(egress: string) {
    this.#egress = egress
  }

  /** Returns true once the database gave the recorder the right to send. */
  get hasHadRight(): boolean {
    return this.#hasHadRight
  }

  get presence(): Presence {
    return {
      startedMs: this.#startedMs,
      firstHeardMs: this.#firstHeardMs,
      visibleSinceMs: this.#visible?.sinceMs,
      aloneUntilMs: this.#aloneUntilMs,
      before: this.#before,
    }
  }

  /** Another recorder begins on the machine: it knows nothing yet. */
  begins(nowMs: number): void {
    if (this.#startedMs !== undefined) this.#before = { startedMs: this.#startedMs, firstHeardMs: this.#firstHeardMs }
    this.#startedMs = nowMs
    this.#firstHeardMs = undefined
    this.#hasHadRight = false
    this.#visible = undefined
    this.#isToldOfAnother(nowMs)
  }

  hears({ statement: { text, values }, value }: Received, nowMs: number): void {
    if (!Array.isArray(values) || values[0] !== this.#egress) return
    const isRenewal = renews.test(text)
    if (!isRenewal && !takes.test(text) && !looks.test(text)) return
    this.#firstHeardMs ??= nowMs
    const { rows } = value as { readonly rows: readonly { readonly waited?: boolean }[] }
    const [row] = rows
    if (row !== undefined && !looks.test(text)) this.#hasHadRight = true
    if (row !== undefined) {
      const isSeen = this.#visible !== undefined && nowMs < this.#visible.untilMs
      this.#visible = { sinceMs: isSeen ? (this.#visible?.sinceMs ?? nowMs) : nowMs, untilMs: nowMs + leaseMs }
    }
    if (row?.waited === false) this.#aloneUntilMs = Infinity
    else this.#isToldOfAnother(nowMs)
  }

  #isToldOfAnother(nowMs: number): void {
    this.#aloneUntilMs = Math.min(this.#aloneUntilMs, nowMs)
  }
}
