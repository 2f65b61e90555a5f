import type { Config } from '../../config/resolve.js'
import { type InstrumentKey, instrumentText } from '../../market/category.js'
import type { Operation } from '../../market/operation.js'
import { type StreamName, streamTraits } from '../../market/stream.js'
import { secondsPerDay, sum } from '../../market/values.js'
import type { InstrumentStream, ListStream } from '../streams/stream.js'
import { type AnyStream, enabledStreams } from '../streams/streams.js'
import { type LeftOut, type PlanInstrument, type PlanUniverse, rankInstruments } from '../universe/planUniverse.js'
import { runsPerDay } from '../schedule/cron.js'
import { isWithin } from '../schedule/pace.js'

/** Requests, rows and bytes of a stream on a day on which its schedule runs. */
export interface StreamDemand {
  readonly stream: StreamName
  readonly operation: Operation
  readonly instruments: number
  /** Number of instruments that the stream leaves out, for each reason. */
  readonly leftOut: LeftOut
  readonly requestsPerSecond: number
  readonly rowsPerDay: number
  readonly bytesPerDay: number
  /** Bytes that the rows of a day take in TimescaleDB's columnstore. */
  readonly compressedBytesPerDay: number
}

/** @param allowedPerSecond requests per second that the limits leave for the stream; only `busiest: fit` uses it */
export function streamDemand(
  stream: AnyStream,
  config: Config,
  universe: PlanUniverse,
  allowedPerSecond: number,
): StreamDemand {
  const { bytes, ...demand } =
    stream.kind === 'lists'
      ? listDemand(stream, config, universe)
      : instrumentDemand(stream, config, universe, allowedPerSecond)
  return {
    stream: stream.name,
    operation: streamTraits[stream.name].operation,
    ...demand,
    bytesPerDay: demand.rowsPerDay * bytes.plain,
    compressedBytesPerDay: demand.rowsPerDay * bytes.compressed,
  }
}

/** Returns true if a stream takes what the limits leave for it, instead of a number that the configuration names. */
export function takesWhatFits(config: Config, stream: AnyStream): boolean {
  return stream.kind === 'instruments' && stream.select(config).busiest === 'fit'
}

function listDemand(stream: ListStream<unknown, unknown>, config: Config, { instruments, ownership }: PlanUniverse) {
  const { name, covers = () => true, bytes } = stream
  const lists = stream.lists(config).filter((category) => ownership?.hasList(name, category) ?? true)
  const isListed = ({ category }: InstrumentKey) => lists.includes(null) || lists.includes(category)
  const covered = instruments.filter((instrument) => isListed(instrument) && covers(instrument))
  const runs = runsPerDay(stream.schedule(config))
  return {
    instruments: covered.length,
    leftOut: { kind: 0, turnover: 0, number: 0, limits: 0 },
    requestsPerSecond: (lists.length * runs) / secondsPerDay + (stream.extraPerSecond?.(config) ?? 0),
    rowsPerDay: stream.rowsOf(covered) * runs,
    bytes,
  }
}

function instrumentDemand(
  stream: InstrumentStream<InstrumentKey, unknown>,
  config: Config,
  universe: PlanUniverse,
  allowed: number,
) {
  const { sharesRequests } = stream
  const costOf = stream.costOf(config)
  const { chosen, leftOut } = cover(stream, config, universe, sharesRequests === undefined ? costOf : () => 0, allowed)
  const needed = sum(chosen.map(costOf))
  const isBounded = sharesRequests !== undefined && takesWhatFits(config, stream)
  const requestsPerSecond = isBounded ? Math.min(needed, allowed) : needed
  // No more rows can be stored than the responses hold.
  const maxPerDay = requestsPerSecond * (sharesRequests ?? Infinity) * secondsPerDay
  return {
    instruments: chosen.length,
    leftOut,
    requestsPerSecond,
    rowsPerDay: chosen.length === 0 ? 0 : Math.min(sum(chosen.map(stream.rowsPerDayOf(config))), maxPerDay),
    bytes: stream.bytes(config),
  }
}

/**
 * Chooses the instruments that a stream covers: the first ones of its ranking. `busiest: 50` is 50 in the whole fleet;
 * this address takes its part of them. `busiest: fit` is as many as the limits of this address leave room for.
 */
function cover(
  { select: selectionOf, covers }: InstrumentStream<InstrumentKey, unknown>,
  config: Config,
  universe: PlanUniverse,
  costOf: (instrument: PlanInstrument) => number,
  allowedPerSecond: number,
): { readonly chosen: readonly PlanInstrument[]; readonly leftOut: LeftOut } {
  const select = selectionOf(config)
  const eligible = covers === undefined ? universe : { ...universe, instruments: universe.instruments.filter(covers) }
  const { ranked, leftOut } = rankInstruments(eligible, select)
  const isOwn = (key: PlanInstrument) => universe.ownership?.hasInstrument(key) ?? true
  if (select.busiest !== 'fit') {
    const named = ranked.slice(0, select.busiest)
    return { chosen: named.filter(isOwn), leftOut: { ...leftOut, number: ranked.length - named.length, limits: 0 } }
  }
  const own = ranked.filter(isOwn)
  const chosen = own.slice(0, countWithin(own.map(costOf), allowedPerSecond))
  return { chosen, leftOut: { ...leftOut, number: 0, limits: own.length - chosen.length } }
}

/** Requests that one stream needs for one instrument. */
export interface InstrumentDemand {
  readonly stream: StreamName
  /** The instrument as text. */
  readonly key: string
  /** Requests a second. Above 0. */
  readonly perSecond: number
}

/** Returns the demand of each instrument of each stream, by its recently recorded trades or else by its ticker. */
export function instrumentDemands(config: Config, { kind, instruments }: PlanUniverse): InstrumentDemand[] {
  return enabledStreams(config).flatMap((stream) => {
    if (stream.kind === 'lists') return []
    const costOf = stream.costOf(config)
    const { chosen } = cover(stream, config, { kind, instruments }, () => 0, Infinity)
    return chosen.map((one) => ({ stream: stream.name, key: instrumentText(one), perSecond: costOf(one) }))
  })
}

type Kept = Partial<Pick<Config['storage']['fills'], 'retentionDays' | 'columnstoreAfterHours'>>

/** Longest time to look ahead. A disk that lasts longer counts as never full. */
const maxDays = 36_500

/**
 * Returns the number of days until the plan's rows fill `freeBytes`, from an empty database on. Returns Infinity if
 * they never do, because old rows are removed. If the server compresses, older rows count with their compressed size.
 */
export function daysOnDisk(
  streams: readonly Pick<StreamDemand, 'stream' | 'bytesPerDay' | 'compressedBytesPerDay'>[],
  storage: Config['storage'],
  { freeBytes, isCompressed }: { readonly freeBytes: number; readonly isCompressed: boolean },
): number {
  const tables: Partial<Record<keyof Config['streams'], Kept>> = storage
  const bytesAfter = (days: number) =>
    streams.reduce((total, { stream, bytesPerDay, compressedBytesPerDay }) => {
      const { retentionDays = Infinity, columnstoreAfterHours = Infinity } = tables[streamTraits[stream].options] ?? {}
      const kept = Math.min(days, retentionDays)
      const plain = isCompressed ? Math.min(kept, columnstoreAfterHours / 24) : kept
      return total + plain * bytesPerDay + (kept - plain) * compressedBytesPerDay
    }, 0)
  if (bytesAfter(maxDays) <= freeBytes) return Infinity
  let [fits, full] = [0, maxDays]
  while (full - fits > 0.01) {
    const middle = (fits + full) / 2
    if (bytesAfter(middle) <= freeBytes) fits = middle
    else full = middle
  }
  return fits
}

/**
 * Returns how many entries fit into an allowance, counted from the top of a ranking.
 *
 * @param costs requests per second of each entry, in the order of the ranking
 */
function countWithin(costs: readonly number[], allowedPerSecond: number): number {
  let used = 0
  for (const [index, cost] of costs.entries()) {
    used += cost
    if (!isWithin(used, allowedPerSecond)) return index
  }
  return costs.length
}
