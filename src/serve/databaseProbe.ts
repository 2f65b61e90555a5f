import { type Clock, within } from '../runtime/clock.js'
import type { RecorderDatabase } from '../db/database.js'
import { describeDatabaseError } from '../db/databaseError.js'
import { ping, type StoreOverview, storeOverview } from '../ledger/read/overview.js'

export interface DatabaseState {
  readonly isReachable: boolean
  readonly latencyMs: number | null
  /** Delay of a standby; null for a primary server, and if it did not respond. */
  readonly lagMs: number | null
  readonly error: string | null
  /** True when the database has responded at least once since the start. */
  readonly wasReachable: boolean
  /** The last overview; null before the first one. */
  readonly overview: StoreOverview | null
}

const pingEveryMs = 1_000
const overviewEveryMs = 15_000
/** Maximum share of the database's time that overviews take. Slow overviews are read less often. */
const overviewShare = 1 / 20
/** Longest wait for the database. One that hangs is as bad as one that is away. */
export const patienceMs = 3_000
/** Longest wait for a new overview, milliseconds. After that wait the previous overview is used. */
const overviewPatienceMs = 500
const late = Symbol('late')
const away = { isReachable: false, latencyMs: null, lagMs: null }

/** Checks whether the database responds, at most once a second for all callers. */
export class DatabaseProbe {
  readonly #database: RecorderDatabase
  readonly #pings: RecorderDatabase
  readonly #clock: Clock
  #checking: Promise<DatabaseState> | undefined
  #state: DatabaseState = { ...away, error: 'not asked yet', overview: null, wasReachable: false }
  #checkedMs = -Infinity
  #nextOverviewMs = -Infinity
  #counting: Promise<void> | undefined

  /** @param pings connections for pings alone, so that slow requests of the page hold none up */
  constructor(database: RecorderDatabase, pings: RecorderDatabase, clock: Clock) {
    this.#database = database
    this.#pings = pings
    this.#clock = clock
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
      this.#state = { ...this.#state, isReachable: true, wasReachable: true, latencyMs, lagMs, error: null }
    } catch (error) {
      this.#state = { ...this.#state, ...away, error: describeDatabaseError(error) }
      return this.#state
    }
    if (startedMs >= this.#nextOverviewMs) {
      this.#counting ??= this.#count()
      await within(this.#clock, overviewPatienceMs, this.#counting, undefined)
    }
    return this.#state
  }

  /** Reads the overview. It is slow for a large database, so its time does not count as a failure. Never rejects. */
  async #count(): Promise<void> {
    const startedMs = this.#clock.monotonicMs()
    try {
      const overview = await storeOverview(this.#database.db)
      this.#state = { ...this.#state, overview }
    } catch {
      // The previous overview is still shown. Only the ping decides whether the database responds.
    }
    const endedMs = this.#clock.monotonicMs()
    this.#nextOverviewMs = Math.max(startedMs + overviewEveryMs, endedMs + (endedMs - startedMs) / overviewShare)
    this.#counting = undefined
  }
}

async function withPatience<T>(clock: Clock, work: Promise<T>): Promise<T> {
  work.catch(() => undefined)
  const result = await within(clock, patienceMs, work, late)
  if (result === late) throw new Error(`the database did not respond within ${patienceMs / 1000} s`)
  return result
}
