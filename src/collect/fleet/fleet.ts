import { createHash } from 'node:crypto'
import { hostname } from 'node:os'
import type { Config } from '../../config/resolve.js'
import type { Sharing } from '../../lease/lease.js'
import type { SeenRecorder } from '../../lease/leaseRow.js'
import { leaseMs } from '../../lease/right.js'
import type { Clock } from '../../runtime/clock.js'
import type { Disk } from '../../runtime/disk.js'
import { readNote, writeNote } from '../../runtime/diskNote.js'
import type { Logger } from '../../runtime/logger.js'
import { type Ownership, ownsEverything } from '../universe/ownership.js'
import type { PlanUniverse } from '../universe/planUniverse.js'
import { type Demand, fleetDemand, type FleetReport, reportOf } from './fleetReport.js'
import { type FleetMember, ownershipOf, Rendezvous } from './rendezvous.js'

export interface FleetOptions {
  readonly config: Config
  readonly egress: string
  readonly clock: Clock
  readonly logger: Logger
  readonly disk: Disk
  /** Where the last members are kept for a start without the database. */
  readonly file: string
  /** What is known of the market; nothing before the first lists have come. */
  readonly universe: () => PlanUniverse
  /** Told what is this recorder's own, whenever that changes. */
  readonly onChange: (ownership: Ownership) => void
  /** Whether it asks at once for what is given to it. Until then the others keep what they have. */
  readonly isReady: () => boolean
  /** How long the service will still refuse whatever this address asks for. */
  readonly pausedMs: () => number
}

const demandEveryMs = 10_000
/** An address that is blocked for longer leaves its instruments to others meanwhile. */
const yieldAfterMs = 10_000
/** By then each of the others has looked at the leases once more. */
const leavingMs = 1_500

/**
 * Shares the work with the other recorders of the database. Each recorder computes what is its own from the live leases alone
 * (rendezvous.ts), about once a second; nobody assigns anything. While the database is away each keeps its part.
 *
 * What moves when a recorder joins is asked for by both for the length of a lease: their budgets are their own, so nothing is
 * exceeded, and there is no time in which nobody asks. When a recorder dies or is frozen, its lease ends 3.5 s after its last
 * renewal, and the others see that within a second. When it stops, it says so and goes on for 1.5 s.
 */
export class Fleet implements Sharing {
  readonly fleet: string
  readonly weight: number
  readonly place: string
  readonly #options: FleetOptions
  #recorders: readonly SeenRecorder[] = []
  #rendezvous: Rendezvous | null = null
  #before: Rendezvous | null = null
  /** Until when it also asks for what was its own before. */
  #keepsUntilMs = Infinity
  #ownership: Ownership = ownsEverything
  #demand: readonly Demand[] = []
  #demandAtMs = -Infinity
  /** It has left its part to others, because the service blocks it or it stops. */
  #hasYielded = false
  #isLeaving = false

  constructor(options: FleetOptions) {
    const { localAddress, limits } = options.config.exchange
    this.#options = options
    this.fleet = digestOf(options.config)
    this.weight = limits.overallPerMinute
    this.place = `${hostname()} ${process.pid}${localAddress === undefined ? '' : ` ${localAddress}`}`
  }

  /** Takes up what was this recorder's own when it last ran: that counts until the database has been asked. */
  async recall(): Promise<void> {
    const { disk, file } = this.#options
    const note = await readNote<Note>(disk, file)
    if (note?.fleet === this.fleet && Array.isArray(note.members) && note.members.length > 0) this.#follow(note.members)
  }

  get ownership(): Ownership {
    return this.#ownership
  }

  /** What is known of the others, and how the work is shared. */
  report(): FleetReport {
    return reportOf(this.#options.egress, this.#recorders, this.#rendezvous, () => this.#demandOfLate())
  }

  takesPart(): boolean {
    return this.#options.isReady() && !this.#hasYielded && !this.#isLeaving
  }

  onSight(recorders: readonly SeenRecorder[], connectedMs: number): void {
    const { egress } = this.#options
    const known = new Set(this.#rendezvous?.members.map((member) => member.egress))
    // Just after the database was away, the others may not have been able to renew their leases yet.
    const isThere = (seen: SeenRecorder) => seen.isLive || (connectedMs < leaseMs && known.has(seen.egress))
    const others = recorders
      .filter((seen) => seen.egress !== egress && isThere(seen))
      .map(({ egress: other, weight }): FleetMember => ({ egress: other, weight }))
    this.#recorders = recorders
    this.#yieldWhenBlocked(others.length)
    const isMember = others.length === 0 || !(this.#hasYielded || this.#isLeaving)
    const self = isMember ? [{ egress, weight: this.weight }] : []
    this.#follow([...others, ...self].toSorted((a, b) => (a.egress < b.egress ? -1 : 1)))
  }

  /** Resolves when the others ask for what was this recorder's own. @param tell says to them that it takes no part any more */
  async leave(tell: () => Promise<void> | undefined): Promise<void> {
    this.#isLeaving = true
    await tell()
    const isShared = (this.#rendezvous?.members.length ?? 1) > 1
    if (isShared && this.#options.isReady()) await this.#options.clock.sleep(leavingMs)
  }

  /** Once for each block: when all others have left too, the last one stays. */
  #yieldWhenBlocked(others: number): void {
    const { egress, logger, pausedMs } = this.#options
    const forMs = pausedMs()
    if (forMs <= 0) this.#hasYielded = false
    if (forMs <= yieldAfterMs || this.#hasYielded || others === 0) return
    this.#hasYielded = true
    logger.warn(
      `the service blocks ${egress} for ${Math.ceil(forMs / 1000)} s; the others ask for its instruments until then`,
    )
  }

  #follow(members: readonly FleetMember[]): void {
    const { egress, disk, file, logger, clock, onChange } = this.#options
    const nowMs = clock.monotonicMs()
    if (this.#rendezvous !== null && isSame(this.#rendezvous.members, members)) {
      if (nowMs < this.#keepsUntilMs) return
      this.#keepsUntilMs = Infinity
      this.#own(false)
      return onChange(this.#ownership)
    }
    const names = members.map((member) => member.egress)
    if (names.length > 1 || (this.#rendezvous?.members.length ?? 1) > 1)
      logger.info(`the work is shared by ${names.length}: ${names.join(', ')}`)
    this.#before = this.#rendezvous
    this.#rendezvous = new Rendezvous(members)
    this.#keepsUntilMs = nowMs + leaseMs
    this.#own(names.includes(egress))
    void writeNote(disk, file, { fleet: this.fleet, members } satisfies Note, { logger, what: 'fleet' })
    onChange(this.#ownership)
  }

  #own(keepsBefore: boolean): void {
    const { egress } = this.#options
    const now = this.#rendezvous
    const isAlone = now === null || (now.members.length === 1 && now.members[0]?.egress === egress)
    this.#ownership = isAlone ? ownsEverything : ownershipOf(egress, now, this.#before, keepsBefore)
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
}

/** What a recorder leaves on its own disk for a start without the database. */
interface Note {
  readonly fleet: string
  readonly members: readonly FleetMember[]
}

/** Recorders that are configured alike ask for the same, whatever their addresses and limits are. */
function digestOf({ streams }: Config): string {
  const text = JSON.stringify(streams, (_key, value: unknown) => (value === Infinity ? 'all' : value))
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

function isSame(some: readonly FleetMember[], others: readonly FleetMember[]): boolean {
  return (
    some.length === others.length &&
    some.every(({ egress, weight }, place) => egress === others[place]?.egress && weight === others[place]?.weight)
  )
}
