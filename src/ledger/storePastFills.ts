import { type Kysely, sql } from 'kysely'
import type { InstrumentKey, TradedCategory } from '../market/category.js'
import type { Fill } from '../market/rows.js'
import { intersect, normalized, type Ranges, subtract, type TimeRange, union } from '../market/timeRange.js'
import {
  addMs,
  dayMs,
  largest,
  minuteMs,
  minuteOf,
  secondMs,
  serviceMs,
  type ServiceMs,
  smallest,
  trimmed,
} from '../market/values.js'
import { columnNames, instant } from '../db/columns.js'
import { callFunction } from '../db/database.js'
import type { Database, FillSource } from '../db/schema.js'
import { keyOrder, streamTable } from '../db/writeRows.js'
import { instrumentStream, ofInstrument, ofSeries, seriesValues } from '../db/series.js'
import { areWholeSeconds, provenBy, provenSilence, runOf, shownFills, type ShownPage } from './run.js'
import { multirange, multirangeText, rangeTexts } from './verdicts.js'
import { missingEvents, noteMissing, withoutFinal } from './missing.js'

type FillKey = InstrumentKey & { readonly category: TradedCategory }

/**
 * `other ids`: the history has other ids for stored fills. `other values`: it has another time, price, size or side
 * for them. `incomplete`: it lacks some of them. `unproven`: it shows none of them, so that it may have other ids.
 */
export type JoinRefusal = 'other ids' | 'other values' | 'incomplete' | 'unproven'

export interface StoredPastFills {
  readonly inserted: number
  /** True if the page shows a fill that a live response stored. */
  readonly showsLive: boolean
  readonly refusal: JoinRefusal | null
  /** Time that the page proves. It is claimed if there is no refusal. */
  readonly proven: Ranges
}

const table = streamTable('fills')

const streamOf = (key: FillKey) => instrumentStream('fills', key)

/** A stored fill within this distance of a range is next to it. One further away needs recorded time between them. */
const nearMs = 10 * minuteMs

/**
 * Finds the times of stored fills next to a range, at least `slackMs` away from it: the second ones, so that pages of
 * what lies beside the range overlap by two times. A side is null if other fills may lie between.
 */
export async function fillNeighbours(
  db: Kysely<Database>,
  key: FillKey,
  { from, to }: TimeRange,
  slackMs: number,
): Promise<{ readonly above: ServiceMs | null; readonly below: ServiceMs | null }> {
  const fills = db.selectFrom('market.fills').select('ts').where(ofInstrument(key)).limit(1)
  const newestBefore = fills.orderBy('ts', 'desc')
  const oldestAfter = fills.orderBy('ts')
  const timesFrom = async (first: typeof fills, further: (ts: ServiceMs) => typeof fills) => {
    const nearest = await first.execute()
    const rest = await Promise.all(nearest.map(({ ts }) => further(ts).execute()))
    return [...nearest, ...rest.flat()]
  }
  // A further one is looked for within a day: of a quiet instrument it may be chunks away.
  const [above, below] = await Promise.all([
    timesFrom(oldestAfter.where('ts', '>=', instant(addMs(to, slackMs))), (ts) =>
      oldestAfter.where('ts', '>', instant(ts)).where('ts', '<=', instant(addMs(ts, dayMs))),
    ),
    timesFrom(newestBefore.where('ts', '<', instant(addMs(from, -slackMs))), (ts) =>
      newestBefore.where('ts', '<', instant(ts)).where('ts', '>=', instant(addMs(ts, -dayMs))),
    ),
  ])
  const adjacentOf = async (found: typeof above, between: (ts: ServiceMs) => TimeRange) => {
    for (const { ts } of found.toReversed()) {
      const range = between(ts)
      if (range.to - range.from <= nearMs || (await missingEvents(db, streamOf(key), range)).length === 0) return ts
    }
    return null
  }
  return {
    above: await adjacentOf(above, (ts) => ({ from: to, to: ts })),
    below: await adjacentOf(below, (ts) => ({ from: ts, to: from })),
  }
}

interface StoredFill extends Pick<Fill, 'execId' | 'ts' | 'side'> {
  readonly source: FillSource
  readonly price: string
  readonly size: string
}

/** The history may give a stored fill another time. It is looked for so far beside a page. */
const besideMs = 10 * secondMs
/** A page has a thousand fills. It lacks some where more than this are stored of its time. */
const maxStored = 20_000

/** A page of a history of fills. */
interface PastFillsPage {
  readonly asked: TimeRange
  /** From the beginning to the end of all that is wanted. Default: what was asked for. */
  readonly wanted?: TimeRange
  /** All fills of the page, in its order. */
  readonly fills: readonly Fill[]
  /** An earlier response of the history; null if there is none. */
  readonly other: ShownPage | null
  /** A page with rows at the edges of a stretch alone. This one was asked for what is between. Default: none. */
  readonly around?: ShownPage | null
  /** The history is known to reach back to this time, and to show this many rows in a page. */
  readonly reachesTo: ServiceMs
  readonly largest: number
  /** The most by which times of the history ran against the order of its rows. */
  readonly disorderMs: number
  readonly requestTime: ServiceMs
  /** Time of rows that cannot be understood, which the page does not prove. Default: none. */
  readonly unread?: Ranges
  /** True if the history is known to have the ids of live fills. Else a page needs a stored fill. Default: true. */
  readonly isProven?: boolean
  /** Fills that a live response showed. A silence that holds one of them is none: the history is late. */
  readonly live?: readonly Pick<Fill, 'execId' | 'ts'>[]
}

/** The service's history may be some seconds behind its newest rows. */
export const historyLateMs = 20_000

/**
 * Stores a page of a history of fills with its proof: its run, and a silence that it shows with another page. Changes
 * nothing if a stored fill of that time is not on the page, or if the page has no fill that is stored or near the wanted
 * time: what it proves would stand alone.
 */
export async function storePastFills(
  db: Kysely<Database>,
  key: FillKey,
  page: PastFillsPage,
): Promise<StoredPastFills> {
  const { category, symbol } = key
  return db.transaction().execute(async (trx) => {
    await callFunction(trx, 'recorder.lock_fills', [category], [symbol])
    const judgement = await judge(trx, key, page)
    if (judgement === null) return { inserted: 0, showsLive: false, refusal: null, proven: [] }
    const { known, compare, proven, refusal } = judgement
    await weighValues(trx, key, judgement)
    const showsLive = known.some((fill) => fill.source === 'live' && compare(fill) === 'same')
    if (refusal !== null) return { inserted: 0, showsLive, refusal, proven }
    const fresh = await freshFills(trx, key, judgement)
    const inserted = await insertFills(trx, key, fresh)
    if (proven.length + fresh.length > 0) await claimProven(trx, key, page, proven, fresh)
    return { inserted, showsLive, refusal: null, proven }
  })
}

interface Judgement {
  /** The stored fills of the time of the page, without those that an earlier page showed around it. */
  readonly known: readonly StoredFill[]
  /** The fills of the page that are not among them. */
  readonly unknown: readonly Fill[]
  readonly compare: Compare
  readonly proven: Ranges
  readonly refusal: JoinRefusal | null
}

/** Judges a page by the stored fills. Resolves to null if what it proves would stand alone. */
async function judge(trx: Kysely<Database>, key: FillKey, page: PastFillsPage): Promise<Judgement | null> {
  const { asked, wanted = asked, fills, other, around = null, unread = [], isProven = true } = page
  const shown = shownFills(asked, fills)
  const settledUntil = addMs(page.requestTime, -historyLateMs)
  const silence = intersect(provenSilence(shown, other, page.largest, around), [
    { from: page.reachesTo, to: settledUntil },
  ])
  const aroundIds = new Set(around?.rows.map(({ key: id }) => id))
  // Rows far from what was asked bound nothing. The time up to them may hold millions of stored fills.
  const near = fills.filter(({ ts }) => ts >= asked.from - besideMs && ts <= asked.to + besideMs)
  const times = [...near.map(({ ts }) => ts), ...silence.flatMap(({ from, to }) => [from, to])]
  const stored = await storedAround(trx, key, times)
  const known = stored.filter(({ execId }) => !aroundIds.has(execId))
  const knownIds = new Set(known.map(({ execId }) => execId))
  const isNear = fills.some(({ ts }) => ts >= wanted.from - nearMs && ts < wanted.to + nearMs)
  const isJoined = fills.length === 0 || fills.some(({ execId }) => knownIds.has(execId))
  if (!isJoined && !isNear) return null
  const seenIds = new Set([...knownIds, ...aroundIds, ...fills.map(({ execId }) => execId)])
  const unseen = (page.live ?? []).filter(({ execId }) => !seenIds.has(execId))
  const silent = beforeUnseen(silence, unseen)
  const run = runOf(
    shown.rows.map(({ ts }) => ts),
    page.disorderMs,
  )
  const proven = subtract(union(provenBy(run, settledUntil), silent), unread)
  const compare = comparedWith(fills)
  const lacks = stored.length > maxStored ? 'incomplete' : whyRefused(known, fills, compare, proven)
  const refusal = lacks ?? (isJoined || isProven ? null : 'unproven')
  return { known, unknown: fills.filter(({ execId }) => !knownIds.has(execId)), compare, proven, refusal }
}

/** Returns a silence as far as no live fill lies in it that the history does not show. There the history is late. */
function beforeUnseen(silence: Ranges, unseen: readonly Pick<Fill, 'ts'>[]): Ranges {
  const late = unseen.filter(({ ts }) => silence.some(({ from, to }) => ts >= from && ts < to))
  const from = smallest([serviceMs(Infinity), ...late.map(({ ts }) => ts)])
  return subtract(silence, [{ from, to: serviceMs(Infinity) }])
}

/** Returns those of a page's unknown fills that have not left the database for good. */
async function freshFills(
  trx: Kysely<Database>,
  key: FillKey,
  { unknown, proven }: Judgement,
): Promise<readonly Fill[]> {
  const fresh = await withoutFinal(trx, streamOf(key), unknown)
  if (fresh.length === unknown.length) return fresh
  await callFunction(trx, 'recorder.end_fill_mark', key.category, key.symbol, multirangeText(proven))
  return withoutFinal(trx, streamOf(key), unknown)
}

/** Stores fills and ends the silence in which they happened. Resolves to their number. */
async function insertFills(trx: Kysely<Database>, key: FillKey, fresh: readonly Fill[]): Promise<number> {
  if (fresh.length === 0) return 0
  const { numAffectedRows = 0n } = await sql`
    insert into market.fills (${columnNames(table.columns)}, source)
    select ${columnNames(table.columns)}, 'history' from ${table.source(fresh)} as incoming
    order by ${keyOrder(table.key)} on conflict do nothing`.execute(trx)
  const times = fresh.map(({ ts }) => ts)
  const [from, to] = [new Date(smallest(times)), new Date(largest(times))]
  await callFunction(trx, 'recorder.end_silence', key.category, key.symbol, from, to)
  return Number(numAffectedRows)
}

/** Claims what a page proves. */
async function claimProven(
  trx: Kysely<Database>,
  key: FillKey,
  { requestTime }: PastFillsPage,
  proven: Ranges,
  fresh: readonly Fill[],
): Promise<void> {
  // Prices of fills that it stored may contradict what is claimed.
  const minutes = normalized(fresh.map(({ ts }) => ({ from: minuteOf(ts), to: addMs(minuteOf(ts), minuteMs) })))
  const [claim, stored, at] = [multirangeText(proven), multirangeText(minutes), new Date(requestTime)]
  await callFunction(trx, 'recorder.cover_fills', key.category, key.symbol, claim, at, 'history', stored)
}

/** Reads the stored fills around times. Those of the history may be whole seconds, or others than the stored ones. */
async function storedAround(
  trx: Kysely<Database>,
  key: FillKey,
  times: readonly ServiceMs[],
): Promise<readonly StoredFill[]> {
  if (times.length === 0) return []
  return trx
    .selectFrom('market.fills')
    .select(['exec_id as execId', 'ts', 'side', 'price', 'size', 'source'])
    .where(ofInstrument(key))
    .where('ts', '>=', instant(addMs(smallest(times), -besideMs)))
    .where('ts', '<=', instant(addMs(largest(times), besideMs)))
    .limit(maxStored + 1)
    .execute()
}

/** Tells if the fills of a page show a stored one: `same` or `other` values; null if they do not show it. */
type Compare = (stored: StoredFill) => 'same' | 'other' | null

function comparedWith(fills: readonly Fill[]): Compare {
  const shown = new Map(fills.map((fill) => [fill.execId, fill]))
  const areSeconds = areWholeSeconds(fills)
  return ({ execId, ts, side, price, size }) => {
    const fill = shown.get(execId)
    if (fill === undefined) return null
    const isThen = fill.ts === ts || (areSeconds && fill.ts === ts - (ts % secondMs))
    const isAlike = fill.side === side && trimmed(fill.price) === trimmed(price) && trimmed(fill.size) === trimmed(size)
    return isThen && isAlike ? 'same' : 'other'
  }
}

const disputedReason = 'the history of fills gave a stored one other values'

/**
 * Notes fills that come again with other values as evidence. It ends where a page that is not refused shows all stored
 * fills of a millisecond. A page that agrees with no stored fill is of a history that nothing is believed of.
 */
async function weighValues(trx: Kysely<Database>, key: FillKey, { known, compare, refusal }: Judgement) {
  const timesOf = (verdict: ReturnType<Compare>) =>
    normalized(known.filter((fill) => compare(fill) === verdict).map(({ ts }) => ({ from: ts, to: addMs(ts, 1) })))
  const [same, other] = [timesOf('same'), timesOf('other')]
  if (same.length === 0) return
  const series = seriesValues(streamOf(key))
  const shown = multirangeText(subtract(same, timesOf(null)))
  if (refusal === null) await callFunction(trx, 'recorder.end_evidence', ...series, 'disputed', shown)
  if (other.length > 0) await callFunction(trx, 'recorder.note_evidence', ...series, rangeTexts(other), disputedReason)
}

/** Returns why a history disagrees with the stored fills of the same time; null if it agrees. */
function whyRefused(
  known: readonly StoredFill[],
  fills: readonly Fill[],
  compare: Compare,
  proven: Ranges,
): JoinRefusal | null {
  if (known.some((fill) => compare(fill) === 'other')) return 'other values'
  const isIn = ({ ts }: StoredFill) => proven.some(({ from, to }) => ts >= from && ts < to)
  const leftOut = known.filter((fill) => isIn(fill) && compare(fill) === null)
  if (leftOut.length === 0) return null
  // A late history does not show the newest stored fills yet. It may still have the same ids for them.
  const times = fills.map(({ ts }) => ts)
  const [oldest, newest] = [smallest(times), largest(times)]
  const isAmong = leftOut.some(({ ts }) => ts >= oldest && ts <= newest)
  return isAmong && known.every((fill) => compare(fill) === null) ? 'other ids' : 'incomplete'
}

/**
 * Notes why a range is not stored. The reason goes to the gaps in the range, but for those that evidence left, and to a
 * new gap for the rest.
 */
export async function explainFills(
  db: Kysely<Database>,
  key: FillKey,
  range: TimeRange,
  reason: string,
): Promise<void> {
  await db
    .updateTable('recorder.ledger')
    .set({ reason })
    .where(ofSeries(streamOf(key)))
    .where('verdict', 'in', ['missing', 'lost'])
    .where('ranges', '&&', multirange([range]))
    .where(sql<boolean>`recorder.evidence_of(reason) is null`)
    .execute()
  await noteMissing(db, streamOf(key), [range], reason)
}
