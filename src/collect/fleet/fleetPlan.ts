import type { Config } from '../../config/resolve.js'
import { instrumentText } from '../../market/category.js'
import { streamTraits } from '../../market/stream.js'
import { sum } from '../../market/values.js'
import { planNotes } from '../plan/advice.js'
import { instrumentDemands, type StreamDemand, streamDemand } from '../plan/demand.js'
import { type Plan, planConfig, totalsOf } from '../plan/plan.js'
import { safeRates, watchesPerSecond } from '../streams/rates.js'
import { type AnyStream, enabledStreams, streamNamed } from '../streams/streams.js'
import type { PlanInstrument, PlanUniverse } from '../universe/planUniverse.js'
import { ownershipOf, Rendezvous } from './rendezvous.js'

/** A plan for several addresses. Figures cover all of them together. The plan fits when it fits each address. */
export interface FleetPlan extends Plan {
  readonly egresses: number
  /** Number of addresses at which the limits leave out no instrument. */
  readonly egressesNeeded: number
}

/** Largest number of plans computed when each needs the whole ranking. Their figures are scaled up to all addresses. */
const maxReckoned = 64
/** Share of a limit that a plan may use. The rest is left for retries. */
const plannedShare = 0.9
/** Standard deviations above the mean share that hardly any address exceeds, as chance distributes instruments. */
const deviations = 3.5

/** Plans a configuration for a number of addresses that have the same limits. */
export function planFleet(config: Config, universe: PlanUniverse, egresses: number): FleetPlan {
  const egressesNeeded = egressesNeededFor(config, universe)
  if (egresses === 1) return { ...planConfig(config, universe), egresses, egressesNeeded }
  const weight = config.exchange.limits.overallPerMinute
  const members = Array.from({ length: egresses }, (_, index) => ({ egress: `egress ${index + 1}`, weight }))
  const rendezvous = new Rendezvous(members)
  // A number of instruments applies to all recorders together, so each plan then needs the whole ranking.
  const isSplit = enabledStreams(config).every((stream) => !takesNumber(config, stream))
  const reckoned = isSplit ? members : members.slice(0, maxReckoned)
  const instrumentsOf = isSplit ? splitByOwner(rendezvous, universe) : null
  const plans = reckoned.map(({ egress }) => {
    const instruments = instrumentsOf === null ? universe.instruments : (instrumentsOf.get(egress) ?? [])
    return planConfig(config, { ...universe, instruments, ownership: ownershipOf(egress, rendezvous) })
  })
  const factor = egresses / reckoned.length
  const [first] = plans
  if (first === undefined) throw new RangeError(`a plan needs at least one egress, got ${egresses}`)
  // Every recorder looks at tickers for its own fills; all else is shared.
  const watchPerSecond = watchesPerSecond(config)
  const streams = first.streams.map((demand, index): StreamDemand => {
    const stream = streamNamed(demand.stream)
    const whole = streamDemand(stream, config, universe, Infinity)
    // Only one recorder requests each list.
    if (stream.kind === 'lists') {
      const watches = demand.stream === 'tickers' ? (egresses - 1) * watchPerSecond : 0
      return { ...whole, requestsPerSecond: whole.requestsPerSecond + watches }
    }
    const total = (value: (one: StreamDemand) => number) =>
      factor * sum(plans.map(({ streams: ofPlan }) => value(ofPlan[index] ?? demand)))
    return {
      ...demand,
      instruments: Math.round(total(({ instruments }) => instruments)),
      leftOut: { ...whole.leftOut, limits: Math.round(total(({ leftOut }) => leftOut.limits)) },
      requestsPerSecond: total(({ requestsPerSecond }) => requestsPerSecond),
      rowsPerDay: total(({ rowsPerDay }) => rowsPerDay),
      bytesPerDay: total(({ bytesPerDay }) => bytesPerDay),
      compressedBytesPerDay: total(({ compressedBytesPerDay }) => compressedBytesPerDay),
    }
  })
  return {
    ...first,
    universe: planConfig(config, universe).universe,
    fits: plans.every(({ fits }) => fits),
    streams,
    ...totalsOf(config, streams, egresses),
    advice: plans.find(({ fits }) => !fits)?.advice ?? [],
    notes: planNotes(config, universe, streams),
    egresses,
    egressesNeeded,
  }
}

function takesNumber(config: Config, stream: AnyStream): boolean {
  if (stream.kind === 'lists') return false
  const { busiest } = stream.select(config)
  return busiest !== 'fit' && busiest !== Infinity
}

function splitByOwner(rendezvous: Rendezvous, { instruments }: PlanUniverse): Map<string, PlanInstrument[]> {
  const byOwner = new Map<string, PlanInstrument[]>()
  for (const instrument of instruments) {
    const owner = rendezvous.ownerOf(instrumentText(instrument)) ?? ''
    const own = byOwner.get(owner)
    if (own === undefined) byOwner.set(owner, [instrument])
    else own.push(instrument)
  }
  return byOwner
}

function egressesNeededFor(config: Config, universe: PlanUniverse): number {
  const safe = safeRates(config)
  const watchPerSecond = watchesPerSecond(config)
  const ofInstruments = instrumentDemands(config, universe)
  const streams = enabledStreams(config).map((stream) => {
    const { requestsPerSecond } = streamDemand(stream, config, universe, Infinity)
    const perSecond = requestsPerSecond - (stream.name === 'tickers' ? watchPerSecond : 0)
    return { ...stream, perSecond, parts: ofInstruments.filter((demand) => demand.stream === stream.name) }
  })
  const ofStreams = streams.map(({ name, perSecond, parts }) =>
    addressesFor(perSecond, parts, safe.perSecond[streamTraits[name].operation] * plannedShare),
  )
  const all = sum(streams.map(({ perSecond }) => perSecond))
  // One recorder requests all streams of an instrument.
  const byInstrument = new Map<string, number>()
  for (const { key, perSecond } of ofInstruments) byInstrument.set(key, (byInstrument.get(key) ?? 0) + perSecond)
  const parts = [...byInstrument.values()].map((perSecond) => ({ perSecond }))
  const overall = addressesFor(all, parts, Math.max(1e-9, safe.overall * plannedShare - watchPerSecond))
  return Math.max(1, overall, ...ofStreams)
}

/** Number of addresses at which even one with more than its mean share has room. Rates are in requests a second. */
function addressesFor(total: number, parts: readonly { readonly perSecond: number }[], room: number): number {
  if (total <= room) return 1
  const spread = deviations * Math.sqrt(sum(parts.map(({ perSecond }) => perSecond ** 2)))
  // Each of n addresses has total / n on average, and at worst spread / √n more by chance.
  const root = (Math.sqrt(spread ** 2 + 4 * total * room) - spread) / (2 * total)
  return Math.ceil(1 / root ** 2)
}
