import pg from 'pg'
import type { Session, Statement } from './databaseLink.js'
import { real } from './machine.js'
import type { RealClient } from './realClient.js'

/** A statement in the server. */
export interface Running {
  readonly session: Session
  readonly statement: Statement
  /** Settles when it is over. */
  readonly settled: Promise<void>
  /** Its result; undefined while it works or waits. */
  outcome: Outcome | undefined
  /** Takes back that it is cancelled when it has waited for too long. */
  stopTimeout?: () => void
}

export interface Outcome {
  readonly error: Error | null
  readonly value?: unknown
}

/** After this time the server is asked if the statement works, or waits for another session. */
const askAfterMs = 15
const giveUpAfterMs = 60_000

/** Sends a statement to the server. */
export function begin(session: Session, statement: Statement): Running {
  const running: Running = {
    session,
    statement,
    outcome: undefined,
    settled: statement.run().then(
      (value) => {
        running.outcome = { error: null, value }
      },
      (error: Error) => {
        running.outcome = { error }
      },
    ),
  }
  return running
}

/**
 * Knows which statements wait for other sessions. No other statement runs while it looks. So a statement that waits
 * goes on waiting until another one releases its lock, however fast the machine is.
 */
export class LockWatch {
  readonly #admin: RealClient
  readonly #blocked: Running[] = []

  constructor(admin: RealClient) {
    this.#admin = admin
  }

  /** True when the statement is over; false when it waits, and is told of by `released` once it does not any more. */
  async isOver(running: Running): Promise<boolean> {
    const isOver = await this.#isOverOrBlocked(running)
    if (!isOver) this.#blocked.push(running)
    return isOver
  }

  /** Returns the statements that waited and are over now. */
  async released(): Promise<Running[]> {
    const released: Running[] = []
    for (let isAny = true; isAny && this.#blocked.length > 0;) {
      isAny = false
      const waiting = new Set(await this.#waitingAmong(this.#blocked.map(({ session }) => session.pid)))
      for (const running of this.#blocked.filter(({ session }) => !waiting.has(session.pid))) {
        if (!(await this.#isOverOrBlocked(running))) continue
        this.#blocked.splice(this.#blocked.indexOf(running), 1)
        released.push(running)
        isAny = true
      }
    }
    return released
  }

  async #waitingAmong(pids: readonly number[]): Promise<number[]> {
    const { rows } = await this.#admin.query<{ pid: number }>(
      'select pid from unnest($1::int[]) as pid where cardinality(pg_blocking_pids(pid)) > 0',
      [pids],
    )
    return rows.map(({ pid }) => pid)
  }

  /** Statements that wait for each other would do so for ever: the last one is refused, as the server does it after a while. */
  async #isOverOrBlocked(running: Running): Promise<boolean> {
    const { pid } = running.session
    const startedMs = real.monotonicMs()
    while (running.outcome === undefined) {
      await settledOrAfter(running, askAfterMs)
      if (running.outcome !== undefined) break
      const { rows } = await this.#admin.query<{ pid: number }>(
        `with recursive chain as (
           select unnest(pg_blocking_pids($1)) as pid union select unnest(pg_blocking_pids(chain.pid)) from chain)
         select pid from chain`,
        [pid],
      )
      if (rows.some((row) => row.pid === pid)) {
        await this.#admin.query('select pg_cancel_backend($1)', [pid])
        await running.settled
        running.outcome = { error: deadlock() }
      } else if (rows.length > 0) return false
      if (real.monotonicMs() - startedMs > giveUpAfterMs)
        throw new Error('the database takes more than a minute for one statement')
    }
    return true
  }
}

function deadlock(): Error {
  return Object.assign(new pg.DatabaseError('deadlock detected', 0, 'error'), { code: '40P01', severity: 'ERROR' })
}

/** Resolves when the statement is over, or after so long. */
function settledOrAfter({ settled }: Running, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = real.setTimeout(resolve, ms)
    void settled.then(() => {
      real.clearTimeout(timer)
      resolve()
    })
  })
}
