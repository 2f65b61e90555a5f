import { createHash } from 'node:crypto'
import { hostname } from 'node:os'
import type { Config } from '../../config/resolve.js'
import type { FleetLease, Sharing } from '../../lease/leaseRow.js'
import { leaseMs } from '../../lease/right.js'
import type { Clock } from '../../runtime/clock.js'
import { type Disk, readNote, writeNote } from '../../runtime/disk.js'
import type { Logger } from '../../runtime/logger.js'
import { type InstrumentDemand, instrumentDemands } from '../plan/demand.js'
import { type Ownership, ownsEverything, type PlanUniverse } from '../universe/planUniverse.js'
import { type FleetMember, ownershipOf, Rendezvous } from './rendezvous.js'

/** A recorder that shares the work, or did until a moment ago. */
interface FleetRecorder {
  readonly egress: string
  readonly place: string
  /** `gone` when the recorder ended without saying so, or cannot reach the database. */
  readonly state: 'recording' | 'gone'
  /** Time since the recorder last renewed its lease. */
  readonly silentMs: number
  /** Pairs of stream and instrument that the recorder requests. */
  readonly instruments: number
  /** Requests a second that these instruments need. */
  readonly perSecond: number
}

export interface FleetReport {
  readonly recorders: readonly FleetRecorder[]
  /** Instruments of streams whose owner is gone and that nobody has taken over yet. */
  readonly unowned: number
}

/** A lease with the state of its recorder by this machine's clock. */
type Heard = FleetLease & { readonly isLive: boolean; readonly silentMs: number }

/**
 * Judges by the monotonic clock which recorders are live: those whose lease has changed within its length. The clock of
 * the database may be set. It tells the age of a lease that is new to this recorder, and where between two reads a
 * lease has changed.
 */
class Hearing {
  readonly #changes = new Map<string, { readonly stamp: string; readonly atMs: number }>()
  #readMs = 0

  hear(leases: readonly FleetLease[], nowMs: number): readonly Heard[] {
    const betweenMs = nowMs - this.#readMs
    this.#readMs = nowMs
    return leases.map((lease) => {
      const known = this.#changes.get(lease.egress)
      const ageMs = known === undefined ? lease.ageMs : Math.min(lease.ageMs, betweenMs)
      const change = known?.stamp === lease.stamp ? known : { stamp: lease.stamp, atMs: nowMs - ageMs }
      this.#changes.set(lease.egress, change)
      const silentMs = nowMs - change.atMs
      return { ...lease, silentMs, isLive: silentMs < leaseMs }
    })
  }
}

/** Reports how the work is shared. A single recorder is listed without a share. */
function reportOf(
  self: string,
  leases: readonly Heard[],
  rendezvous: Rendezvous | null,
  demand: () => readonly InstrumentDemand[],
): FleetReport {
  if (rendezvous === null) return { recorders: [], unowned: 0 }
  const live = new Set(leases.filter(({ isLive }) => isLive).map(({ egress }) => egress)).add(self)
  const shares = new Map<string, { instruments: number; perSecond: number }>()
  let unowned = 0
  for (const { key, perSecond } of rendezvous.members.length > 1 ? demand() : []) {
    const owner = rendezvous.ownerOf(key) ?? ''
    const share = shares.get(owner) ?? { instruments: 0, perSecond: 0 }
    shares.set(owner, { instruments: share.instruments + 1, perSecond: share.perSecond + perSecond })
    if (!live.has(owner)) unowned++
  }
  return {
    unowned,
    recorders: leases.map(({ egress, place, silentMs }) => ({
      egress,
      place,
      state: live.has(egress) ? 'recording' : 'gone',
      silentMs: egress === self ? 0 : silentMs,
      ...(shares.get(egress) ?? { instruments: 0, perSecond: 0 }),
    })),
  }
}

interface FleetOptions {
  readonly config: Config
  readonly egress: string
  readonly clock: Clock
  readonly logger: Logger
  readonly disk: Disk
  /** File that keeps the last members, for a start without the database. */
  readonly file: string
  /** Returns the instruments of the market; none before the first lists have come. */
  readonly universe: () => PlanUniverse
  /** Called with this recorder's share of the work whenever the share changes. */
  readonly onChange: (ownership: Ownership) => void
  /** Returns true if this recorder can request new instruments at once. Until then the others keep theirs. */
  readonly isReady: () => boolean
  /** Returns how long the service will still refuse all requests of this address. */
  readonly pausedMs: () => number
}

const demandEveryMs = 10_000
/** A recorder whose address is blocked for longer than this leaves its instruments to the others meanwhile. */
const yieldAfterMs = 10_000
/** How long a leaving recorder goes on requesting. All other recorders have then read the leases once more. */
const leavingMs = 1_500

/**
 * Shares the work with the other recorders of the database. About once a second, each recorder computes its own share
 * from the live leases (rendezvous.ts). No recorder assigns work to others. Shares stay while the database is away.
 *
 * When a recorder joins, some instruments move to it. For the length of a lease, both owners request these instruments.
 * Each address has its own budget, so no limit is exceeded, and no instrument is left without requests. When a recorder
 * dies or is frozen, its lease does not change any more. The others take its part 3.5 s later, by their own clocks. A
 * recorder that stops tells the others and goes on for 1.5 s.
 */
export class Fleet implements Sharing {
  readonly streamsDigest: string
  readonly weight: number
  readonly place: string
  readonly #options: FleetOptions
  readonly #hearing = new Hearing()
  #leases: readonly Heard[] = []
  #rendezvous: Rendezvous | null = null
  #before: Rendezvous | null = null
  /** Time until which this recorder also requests its previous share, on the monotonic clock. */
  #keepsUntilMs = Infinity
  #ownership: Ownership = ownsEverything
  #demand: readonly InstrumentDemand[] = []
  #demandAtMs = -Infinity
  /** True after this recorder left its share to others because the service blocks it. */
  #hasYielded = false
  #isLeaving = false

  constructor(options: FleetOptions) {
    const { localAddress, limits } = options.config.exchange
    this.#options = options
    this.streamsDigest = digestOf(options.config)
    this.weight = limits.overallPerMinute
    this.place = `${hostname()} ${process.pid}${localAddress === undefined ? '' : ` ${localAddress}`}`
  }

  /** Restores the members of the last run from the disk. They count until the leases have been read. */
  async recall(): Promise<void> {
    const { disk, file } = this.#options
    const note = await readNote<Note>(disk, file)
    if (note?.fleet === this.streamsDigest && Array.isArray(note.members) && note.members.length > 0)
      this.#follow(note.members)
  }

  get ownership(): Ownership {
    return this.#ownership
  }

  /** Reports the known recorders, and how they share the work. */
  report(): FleetReport {
    return reportOf(this.#options.egress, this.#leases, this.#rendezvous, () => this.#demandOfLate())
  }

  takesPart(): boolean {
    return this.#options.isReady() && !this.#hasYielded && !this.#isLeaving
  }

  onFleetRead(listed: readonly FleetLease[], connectedMs: number): void {
    const { egress, clock } = this.#options
    const leases = this.#hearing.hear(listed, clock.monotonicMs())
    const before = new Set(this.#rendezvous?.members.map((member) => member.egress))
    // Just after the database was away, the others may not have been able to renew their leases yet.
    const isThere = (lease: Heard) => lease.isLive || (connectedMs < leaseMs && before.has(lease.egress))
    const others = leases
      .filter((lease) => lease.egress !== egress && isThere(lease))
      .map(({ egress: other, weight }): FleetMember => ({ egress: other, weight }))
    this.#leases = leases
    this.#yieldWhenBlocked(others.length)
    const isMember = others.length === 0 || !(this.#hasYielded || this.#isLeaving)
    const self = isMember ? [{ egress, weight: this.weight }] : []
    this.#follow([...others, ...self].toSorted((a, b) => (a.egress < b.egress ? -1 : 1)))
  }

  /**
   * Tells the others that this recorder leaves. Then it waits long enough for each of them to read the leases once.
   */
  async leave(tell: () => Promise<void> | undefined): Promise<void> {
    this.#isLeaving = true
    await tell()
    const isShared = (this.#rendezvous?.members.length ?? 1) > 1
    if (isShared && this.#options.isReady()) await this.#options.clock.sleep(leavingMs)
  }

  /** Leaves the share to others, once for each block. The last recorder stays. */
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
    void writeNote(disk, file, { fleet: this.streamsDigest, members } satisfies Note, { logger, what: 'fleet' })
    onChange(this.#ownership)
  }

  #own(keepsBefore: boolean): void {
    const { egress } = this.#options
    const now = this.#rendezvous
    const isAlone = now === null || (now.members.length === 1 && now.members[0]?.egress === egress)
    this.#ownership = isAlone ? ownsEverything : ownershipOf(egress, now, this.#before, keepsBefore)
  }

  /** Computes the demand at most every `demandEveryMs`, because every open page requests it. */
  #demandOfLate(): readonly InstrumentDemand[] {
    const { config, universe, clock } = this.#options
    const nowMs = clock.monotonicMs()
    if (nowMs - this.#demandAtMs >= demandEveryMs) {
      this.#demand = instrumentDemands(config, universe())
      this.#demandAtMs = nowMs
    }
    return this.#demand
  }
}

/** Members that a recorder keeps on its own disk for a start without the database. */
interface Note {
  /** Digest of the streams that the members share. */
  readonly fleet: string
  readonly members: readonly FleetMember[]
}

/** Returns a digest of the streams alone. Recorders of equal streams share the work, whatever their limits are. */
function digestOf({ streams }: Config): string {
  const text = JSON.stringify(streams, (_key, value: unknown) => {
    // Every list of the streams is a set of words, so that its order and repetitions have no meaning.
    if (Array.isArray(value)) return [...new Set<string>(value)].sort()
    return value === Infinity ? 'all' : value
  })
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

function isSame(some: readonly FleetMember[], others: readonly FleetMember[]): boolean {
  return (
    some.length === others.length &&
    some.every(({ egress, weight }, index) => egress === others[index]?.egress && weight === others[index]?.weight)
  )
}
