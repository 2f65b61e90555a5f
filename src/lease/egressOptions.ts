import type { Clock } from '../runtime/clock.js'
import type { Disk } from '../runtime/disk.js'
import type { Logger } from '../runtime/logger.js'
import type { RunQuery } from '../db/locks/sessionLock.js'
import type { FleetEntry } from './fleetState.js'

export interface EgressLockOptions {
  readonly logger: Logger
  readonly clock?: Clock
  readonly signal?: AbortSignal
  /** Told whenever the right to send is lost (`false`) or regained (`true`), before anybody else has it. */
  readonly onChange?: (maySend: boolean) => void
  /** Where to note whether another recorder is there, for a start without the database. */
  readonly noteFile?: string
  readonly disk?: Disk
  /** Do not give up when the database is away at first. */
  readonly isPatient?: boolean
  /** The part that this recorder takes in sharing the work; without it, it takes none. */
  readonly sharing?: Sharing
}

/** What is done on the session that holds the lock, so that one who may send also knows what is its own. */
export interface Sharing {
  readonly entry: FleetEntry
  /** Looks at who else is there, about once a second. While it fails, nothing is proven. */
  look(run: RunQuery, session: { readonly owner: string; readonly sinceMs: number }): Promise<void>
}

/** The right to send requests from an egress IP. */
export interface EgressLock {
  /** Whether requests may be sent, as of a moment ago. */
  readonly maySend: boolean
  /** The same now: false in a process that was stopped for a while, until it has asked who owns the budget. */
  check(): boolean
  /** Leaves its part of the work to the others; what is under way is finished. */
  leave(): Promise<void>
  release(): Promise<void>
}
