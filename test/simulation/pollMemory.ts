import type { Statement } from './databaseLink.js'
import type { Outcome } from './lockWatch.js'

/** A question that recorders repeat, and the statements that change its result. Sessions change it, too. */
interface Poll {
  readonly isIt: RegExp
  readonly changedBy: RegExp
  /** Asks by trying to write: it is a question as long as nothing comes of it, and each session asks for itself. */
  readonly tries?: true
}

/** Matches statements that change the sessions or their names. */
const changesSessions = /\bpg_terminate_backend\b|'application_name'/

/** None of them depends on the time. */
const polls: readonly Poll[] = [
  {
    isIt: /^\s*select exists \(select from recorder\.want\b[^;]*\bas needed\s*$/,
    changedBy: /\brecorder\.candle_(?:want|slice)\b/,
  },
]

/**
 * Remembers what the server has said to a poll until something is written that could change it: an idle hour of a world would
 * otherwise be ten thousand equal questions. The recorder gets its result as late as ever.
 */
export class PollMemory {
  readonly #known = polls.map(() => new Map<string, Outcome>())
  readonly #transactions = new Map<object, Set<number>>()

  /** The result of the server, if it is known. */
  recall(session: AskingSession, { text, values }: Statement): Outcome | undefined {
    const place = polls.findIndex(({ isIt }) => isIt.test(text))
    return place < 0 ? undefined : this.#known[place]?.get(keyOf(place, session, text, values))
  }

  /** A statement of a session is over. */
  note(session: AskingSession, { text, values }: Statement, outcome: Outcome): void {
    const place = polls.findIndex(({ isIt }) => isIt.test(text))
    const hasWritten = (outcome.value as { readonly rowCount?: number | null } | undefined)?.rowCount !== 0
    if (place >= 0 && !(polls[place]?.tries === true && hasWritten)) {
      if (outcome.error === null) this.#known[place]?.set(keyOf(place, session, text, values), outcome)
      return
    }
    // Neither a session that is to be ended nor a row that is to be written was there. Parts of a statement are not counted.
    if (outcome.error === null && !hasWritten && !/^\s*with\b/.test(text)) return
    if (changesSessions.test(text)) this.forget()
    for (const [index, { changedBy }] of polls.entries()) {
      if (!changedBy.test(text)) continue
      this.#known[index]?.clear()
      // Others see the writes of a transaction when it ends.
      const touched = this.#transactions.get(session) ?? new Set()
      this.#transactions.set(session, touched.add(index))
    }
  }

  /** A transaction has ended. */
  ended(session: object): void {
    for (const index of this.#transactions.get(session) ?? []) this.#known[index]?.clear()
    this.#transactions.delete(session)
  }

  /** A session has begun or ended. */
  forget(): void {
    for (const known of this.#known) known.clear()
  }
}

interface AskingSession {
  readonly pid: number
}

function keyOf(place: number, { pid }: AskingSession, text: string, values: unknown): string {
  return `${polls[place]?.tries === true ? pid : ''} ${text} ${JSON.stringify(values)}`
}
