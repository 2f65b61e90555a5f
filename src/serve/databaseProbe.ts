import { type Clock, within } from '../runtime/clock.js'
import type { RecorderDatabase } from '../db/database.js'
import { describeDatabaseError } from '../db/databaseError.js'
import { ping, type StoreOverview, storeOverview } from '../ledger/read/overview.js'
import { type Jobs, readJobs } from '../server/timescale/server.js'
import type { MachineMs } from '../market/values.js'

export interface DatabaseState {
  readonly isReachable: boolean
  readonly latencyMs: number | null
  /** Delay of a standby; null for a primary server, and if it did not respond. */
  readonly lagMs: number | null
  readonly error: string | null
  /** When it last responded; null before the first response. */
  readonly respondedAt: MachineMs | null
  /** The last overview; null before the first one. */
  readonly overview: StoreOverview | null
  /** How the server's own jobs fare, as far as is known; null where it has none. */
  readonly jobs: Jobs | null
}

const pingEveryMs = 1_000
const overviewEveryMs = 5_000
const jobsEveryMs = 30_000
/** Longest wait for the database. One that hangs is as bad as one that is away. */
export const patienceMs = 3_000
const late = Symbol('late')
const away = { isReachable: false, latencyMs: null, lagMs: null }

/** Checks whether the database responds, at most once a second for all callers. */
export class DatabaseProbe {
  readonly #pings: RecorderDatabase
  readonly #clock: Clock
  /** A large database is slow to read, so the time that it takes does not count as a failure. */
  readonly #readOverview: () => Promise<StoreOverview | null>
  readonly #readJobs: () => Promise<Jobs | null>
  #checking: Promise<DatabaseState> | undefined
  #state: DatabaseState = { ...away, error: 'not asked yet', overview: null, jobs: null, respondedAt: null }
  #checkedMs = -Infinity

  /** @param pings connections for pings alone, so that slow requests of the page hold none up */
  constructor(database: RecorderDatabase, pings: RecorderDatabase, clock: Clock) {
    this.#pings = pings
    this.#clock = clock
    this.#readOverview = readNowAndThen(clock, overviewEveryMs, null, () => storeOverview(database.db))
    this.#readJobs = readNowAndThen(clock, jobsEveryMs, null, () => readJobs(database.db))
  }

  /** Returns the state of the database, at most about a second old. Never rejects. */
  async state(): Promise<DatabaseState> {
    if (this.#clock.monotonicMs() - this.#checkedMs < pingEveryMs) return this.#state
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined
      this.#checkedMs = this.#clock.monotonicMs()
    })
    return this.#checking
  }

  async #check(): Promise<DatabaseState> {
    const startedMs = this.#clock.monotonicMs()
    try {
      const lagMs = await withPatience(this.#clock, ping(this.#pings.db))
      const latencyMs = this.#clock.monotonicMs() - startedMs
      const respondedAt = this.#clock.now()
      this.#state = { ...this.#state, isReachable: true, respondedAt, latencyMs, lagMs, error: null }
    } catch (error) {
      this.#state = { ...this.#state, ...away, error: describeDatabaseError(error) }
      return this.#state
    }
    const [overview, jobs] = await Promise.all([this.#readOverview(), this.#readJobs()])
    this.#state = { ...this.#state, overview, jobs }
    return this.#state
  }
}

async function withPatience<T>(clock: Clock, work: Promise<T>): Promise<T> {
  work.catch(() => undefined)
  const result = await within(clock, patienceMs, work, late)
  if (result === late) throw new Error(`no response within ${patienceMs / 1000} s`)
  return result
}

/** Maximum share of the time that reading takes. What is slow to read is read less often. */
const maxShare = 1 / 20
/** Longest wait for a reading, milliseconds. */
const readingPatienceMs = 500

/**
 * Returns a function that reads something at most once per interval, however often it is called. It waits briefly for a
 * reading, and otherwise resolves to the previous value, as after a failed reading. It never rejects.
 *
 * @param first value before the first reading
 */
export function readNowAndThen<Value>(
  clock: Clock,
  everyMs: number,
  first: Value,
  read: () => Promise<Value>,
): () => Promise<Value> {
  let value = first
  let nextMs = -Infinity
  let reading: Promise<void> | undefined
  const readOnce = async () => {
    const startedMs = clock.monotonicMs()
    try {
      value = await read()
    } catch {
      // The previous value is still the best there is. Others report what is wrong.
    }
    const endedMs = clock.monotonicMs()
    nextMs = Math.max(startedMs + everyMs, endedMs + (endedMs - startedMs) / maxShare)
    reading = undefined
  }
  return async () => {
    if (clock.monotonicMs() < nextMs) return value
    reading ??= readOnce()
    await within(clock, readingPatienceMs, reading, undefined)
    return value
  }
}
