import { createHash } from 'node:crypto'
import { hostname } from 'node:os'
import type { Config } from '../../config/resolve.js'
import type { StreamName } from '../../market/stream.js'
import type { Clock } from '../../runtime/clock.js'
import type { Disk } from '../../runtime/disk.js'
import type { Logger } from '../../runtime/logger.js'
import type { RunQuery } from '../../db/locks/sessionLock.js'
import {
  type FleetEntry,
  type FleetSight,
  lookAround,
  readAssignment,
  sayAndLook,
  sayGoodbye,
  storeAssignment,
  type StoredAssignment,
  type StoredPlacements,
} from '../../lease/fleetState.js'
import { type Ownership, ownsEverything } from '../universe/ownership.js'
import type { PlanUniverse } from '../universe/planUniverse.js'
import { Assignment, type Placement } from './assignment.js'
import { keepAssignment, lastAssignment } from './assignmentFile.js'
import { fleetDemand } from './fleetDemand.js'
import { type FleetReport, reportOf } from './fleetReport.js'
import { areSame, presentMembers } from './presence.js'
import { type Demand, reassign } from './reassign.js'

export interface FleetOptions {
  readonly config: Config
  readonly egress: string
  readonly clock: Clock
  readonly logger: Logger
  readonly disk: Disk
  /** Where the last assignment is kept for a start without the database. */
  readonly file: string
  /** What is known of the market; nothing before the first lists have come. */
  readonly universe: () => PlanUniverse
  /** Told what is this recorder's own, whenever that changes. */
  readonly onChange: (ownership: Ownership) => void
  /** Whether what is given to it would be asked for at once. Until then the others keep what they have. */
  readonly isReady: () => boolean
  /** How long the service will still refuse whatever this address asks for. */
  readonly pausedMs: () => number
}

/** Demand changes all day; looking at it now and then keeps instruments where they are. The first look follows the first lists. */
const rebalanceEveryMs = 600_000
const firstRebalanceMs = 30_000
const demandEveryMs = 10_000
/** An address that is blocked for longer leaves its instruments to others meanwhile. */
const yieldAfterMs = 10_000

/**
 * Shares the work with the other recorders of the database: sees who is there, and when that has changed stores an assignment
 * that follows, which all of them read. Whoever sees it first does it; two that do it at once come to the same, and the second one is
 * refused. What is not known leaves everything as it is: while the database is away each keeps its part.
 *
 * alone ─▶ sharing ─▶ alone; what it has itself is in `ownership`.
 *
 * For how long nobody asks for an instrument, at most, when its recorder
 * - stops: 0.2 s, as it says so, and a notification wakes the others;
 * - dies: 3.7 s: its session ends with it, its last word is at most 1 s old, it is taken for gone after 2.5 s (presence.ts), the
 *   others look every second (egressLock.ts), and 0.2 s go by for the assignment and the notification;
 * - is frozen, or its machine cannot reach the database: 6.2 s, the same with 5 s of silence;
 * - is blocked by the service for more than 10 s: until its next look, within a second. While the pause is shorter, nobody asks.
 * After that the new owner asks for books that nobody asks for before all else: that takes their number divided by the rate of the
 * operation. When the database was away, everybody is given 6 s to come back before somebody is taken for gone.
 *
 * For how long two ask: the notification reaches both at the same time; without it each looks within a second.
 */
export class Fleet {
  readonly entry: FleetEntry
  readonly #options: FleetOptions
  #assignment: Assignment | null = null
  #version = 0
  #sight: FleetSight | null = null
  #ownership: Ownership = ownsEverything
  #rebalanceAtMs = Infinity
  #demand: readonly Demand[] = []
  #demandAtMs = -Infinity
  /** Whether it has said that it is there: from then on others rely on it. */
  #isThere = false
  /** Whether it has left its part to others because the service blocks it. */
  #hasYielded = false

  constructor(options: FleetOptions) {
    const { localAddress, limits } = options.config.exchange
    this.#options = options
    this.entry = {
      fleet: digestOf(options.config),
      budget: limits.overallPerMinute,
      place: `${hostname()} ${process.pid}${localAddress === undefined ? '' : ` ${localAddress}`}`,
    }
  }

  /** Takes up what this recorder had when it last ran: what counts until the database has been asked. */
  async recall(): Promise<void> {
    const { disk, file } = this.#options
    const kept = await lastAssignment(disk, file, this.entry.fleet)
    if (kept !== null) this.#take(kept)
    // What the database says may be another one of the same number.
    this.#version = -1
  }

  /** What is this recorder's own. */
  get ownership(): Ownership {
    return this.#ownership
  }

  get isShared(): boolean {
    return (this.#assignment?.members.length ?? 1) > 1
  }

  /** What is known of the others, and how the work is shared. */
  report(): FleetReport {
    const { egress } = this.#options
    return reportOf(egress, this.#sight, this.#assignment, () => this.#demandOfLate())
  }

  /** As it was a moment ago: every open page asks. */
  #demandOfLate(): readonly Demand[] {
    const { config, universe, clock } = this.#options
    const nowMs = clock.monotonicMs()
    if (nowMs - this.#demandAtMs >= demandEveryMs) {
      this.#demand = fleetDemand(config, universe())
      this.#demandAtMs = nowMs
    }
    return this.#demand
  }

  /** Looks at who is there, and sees to it that the assignment is theirs. Call it about once a second. */
  async look(run: RunQuery, { owner, sinceMs }: { readonly owner: string; readonly sinceMs: number }): Promise<void> {
    const { egress, clock } = this.#options
    const { fleet, budget } = this.entry
    const nowMs = clock.monotonicMs()
    await this.#yieldWhenBlocked(run, owner)
    const present = (seen: FleetSight) => presentMembers(seen, { egress, weight: budget }, nowMs - sinceMs)
    this.#isThere ||=
      (this.#options.isReady() && !this.#hasYielded) || present(await lookAround(run, fleet)).length === 1
    const sight = this.#isThere ? await sayAndLook(run, egress, owner, fleet) : await lookAround(run, fleet)
    this.#sight = sight
    if (!this.#isThere) return this.#follow(run, sight)
    const members = present(sight)
    if (!areSame(members, sight.members)) {
      const before = sight.version === 0 ? null : await readAssignment(run, fleet)
      await this.#store(run, before, members)
      return this.#follow(run, null)
    }
    if (members.length > 1 && members[0]?.egress === egress && nowMs >= this.#rebalanceAtMs) {
      this.#rebalanceAtMs = nowMs + rebalanceEveryMs
      if (await this.#store(run, await readAssignment(run, fleet), members)) return this.#follow(run, null)
    }
    return this.#follow(run, sight)
  }

  /** Once for each block: when all others have left, too, the last one stays. */
  async #yieldWhenBlocked(run: RunQuery, owner: string): Promise<void> {
    const { egress, logger, pausedMs } = this.#options
    const forMs = pausedMs()
    if (forMs <= 0) this.#hasYielded = false
    if (forMs <= yieldAfterMs || this.#hasYielded || !this.#isThere || !this.isShared) return
    await sayGoodbye(run, egress, owner)
    logger.warn(
      `the service blocks ${egress} for ${Math.ceil(forMs / 1000)} s; the others ask for its instruments until then`,
    )
    this.#hasYielded = true
    this.#isThere = false
  }

  /** Goes by the stored assignment if it is another than the one that is known. @param sight null when it certainly is */
  async #follow(run: RunQuery, sight: FleetSight | null): Promise<void> {
    if (sight !== null && sight.version === this.#version) return
    const stored = await readAssignment(run, this.entry.fleet)
    if (stored !== null) this.#take(stored)
  }

  /** Stores what follows for these members; false when nothing is to be changed, or somebody else was faster. */
  async #store(run: RunQuery, before: StoredAssignment | null, members: StoredAssignment['members']): Promise<boolean> {
    const { config, universe } = this.#options
    const demand = members.length === 1 ? [] : fleetDemand(config, universe())
    const known = before === null ? new Assignment({ members: [], placements: [] }) : assignmentOf(before)
    const next = reassign(known, members, demand)
    const placements = members.length === 1 ? {} : storedPlacements(next.placements)
    if (before !== null && areSame(before.members, members) && isSamePlacement(before.placements, placements))
      return false
    return storeAssignment(run, this.entry.fleet, before?.version ?? 0, { members, placements })
  }

  #take(stored: StoredAssignment): void {
    const { egress, disk, file, logger, clock, onChange } = this.#options
    const previous = this.#assignment
    const before = previous?.members.map((member) => member.egress) ?? []
    this.#assignment = assignmentOf(stored)
    this.#version = stored.version
    const { members } = this.#assignment
    const isAlone = members.length === 1 && members[0]?.egress === egress
    this.#ownership = isAlone ? ownsEverything : this.#assignment.ownershipOf(egress, previous)
    const names = members.map((member) => member.egress)
    if (names.join() !== before.join()) {
      this.#rebalanceAtMs = clock.monotonicMs() + firstRebalanceMs
      if (names.length > 1 || before.length > 1)
        logger.info(`the work is shared by ${names.length}: ${names.join(', ')}`)
    }
    void keepAssignment(disk, file, { fleet: this.entry.fleet, ...stored }, logger)
    onChange(this.#ownership)
  }
}

/** Recorders that are configured alike ask for the same, whatever their addresses and limits are. */
function digestOf({ streams }: Config): string {
  const text = JSON.stringify(streams, (_key, value: unknown) => (value === Infinity ? 'all' : value))
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

function assignmentOf({ members, placements }: StoredAssignment): Assignment {
  return new Assignment({
    members,
    placements: Object.entries(placements).flatMap(([stream, places]) =>
      Object.entries(places).map(([key, egress]): Placement => ({ stream: stream as StreamName, key, egress })),
    ),
  })
}

function storedPlacements(placements: readonly Placement[]): StoredPlacements {
  const stored: Record<string, Record<string, string>> = {}
  for (const { stream, key, egress } of placements.toSorted((a, b) => (a.key < b.key ? -1 : 1)))
    (stored[stream] ??= {})[key] = egress
  return stored
}

function isSamePlacement(some: StoredPlacements, others: StoredPlacements): boolean {
  const text = (placements: StoredPlacements) =>
    Object.entries(placements)
      .flatMap(([stream, places]) => Object.entries(places).map((place) => `${stream} ${place.join(' ')}`))
      .toSorted()
      .join('\n')
  return text(some) === text(others)
}
