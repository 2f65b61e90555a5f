import { type Kysely, sql } from 'kysely'
import type { InstrumentKey, TradedCategory } from '../market/category.js'
import type { Fill } from '../market/rows.js'
import { type Ranges, subtract, type TimeRange } from '../market/timeRange.js'
import { addMs, hourMs, minuteMs, minuteOf, type ServiceMs } from '../market/values.js'
import { columnNames, duration, instant } from '../db/columns.js'
import { callFunction } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { keyOrder, streamTable } from '../db/writeRows.js'
import { candleStream, instrumentStream, ofInstrument, ofSeries, type Series, seriesValues } from '../db/series.js'
import { addCoverage, knownOf, multirange, multirangeText, timeRange } from './verdicts.js'
import { recordGap } from './gaps.js'
import { missingEvents } from './missing.js'

type FillKey = InstrumentKey & { readonly category: TradedCategory }

/**
 * `other ids`: the history has other ids for stored fills. `other values`: it has another time, price, size or side
 * for them. `incomplete`: it lacks some of them.
 */
export type JoinRefusal = 'other ids' | 'other values' | 'incomplete'

interface StoredPastFills {
  readonly inserted: number
  readonly refusal: JoinRefusal | null
  /** Wanted minutes whose candle does not confirm the fills. They are not claimed as recorded. */
  readonly lacking: Ranges
  /** A minute whose beginning is on the next page. It is not claimed as recorded yet. */
  readonly cut: TimeRange | null
}

const table = streamTable('fills')

const streamOf = (key: FillKey) => instrumentStream('fills', key)

/** A stored fill within this distance of a range is next to it. One further away needs recorded time between them. */
const nearMs = 10 * minuteMs

/** Finds the times of the stored fills next to a range. A side is null if other fills may lie between. */
export async function fillNeighbours(
  db: Kysely<Database>,
  key: FillKey,
  { from, to }: TimeRange,
): Promise<{ readonly above: ServiceMs | null; readonly below: ServiceMs | null }> {
  const fills = db.selectFrom('market.fills').select('ts').where(ofInstrument(key)).limit(1)
  const [above, below] = await Promise.all([
    fills
      .where('ts', '>=', instant(addMs(to, -1)))
      .orderBy('ts')
      .executeTakeFirst(),
    fills.where('ts', '<', instant(from)).orderBy('ts', 'desc').executeTakeFirst(),
  ])
  const isAdjacent = async (between: TimeRange) =>
    between.to - between.from <= nearMs || (await missingEvents(db, streamOf(key), between)).length === 0
  return {
    above: above !== undefined && (await isAdjacent({ from: to, to: above.ts })) ? above.ts : null,
    below: below !== undefined && (await isAdjacent({ from: below.ts, to: from })) ? below.ts : null,
  }
}

interface StoredFill extends Pick<Fill, 'execId' | 'ts' | 'side'> {
  readonly price: string
  readonly size: string
}

/** A page of a history of fills. */
interface PastFillsPage {
  readonly fills: readonly Fill[]
  /** Time of which the page shows all fills. */
  readonly covered: TimeRange
  /** Time of which this page and the earlier ones show all fills. */
  readonly shown: TimeRange
  /** Parts of `covered` that are to be claimed as recorded. */
  readonly wanted: Ranges
  /** Time when the page was received. */
  readonly at: ServiceMs
  /** True if one-minute candles of the instrument are recorded now. */
  readonly hasCandles: boolean
}

/**
 * Stores a page of a history of fills with its proof. Changes nothing if a stored fill of that time is not on the page.
 * A minute is not claimed while its candle is missing or counts other fills.
 */
export async function storePastFills(
  db: Kysely<Database>,
  key: FillKey,
  page: PastFillsPage,
): Promise<StoredPastFills> {
  const { fills, covered, shown, wanted, at } = page
  const { category, symbol } = key
  return db.transaction().execute(async (trx) => {
    await callFunction(trx, 'recorder.lock_fills', [category], [symbol])
    const known = await trx
      .selectFrom('market.fills')
      .select(['exec_id as execId', 'ts', 'side', 'price', 'size'])
      .where(ofInstrument(key))
      .where('ts', '>=', instant(covered.from))
      .where('ts', '<', instant(covered.to))
      .execute()
    const refusal = whyRefused(known, fills)
    if (refusal !== null) return { inserted: 0, refusal, lacking: [], cut: null }
    const knownIds = new Set(known.map(({ execId }) => execId))
    const fresh = fills.filter(({ execId }) => !knownIds.has(execId))
    if (fresh.length > 0) {
      await sql`
        insert into market.fills (${columnNames(table.columns)}, source)
        select ${columnNames(table.columns)}, 'history' from ${table.source(fresh)} as incoming
        order by ${keyOrder(table.key)} on conflict do nothing`.execute(trx)
    }
    const unconfirmed = await unconfirmedMinutes(trx, key, page)
    const cut = unconfirmed.find(({ from }) => from < shown.from) ?? null
    const lacking = unconfirmed.filter((minute) => minute !== cut)
    const proven = subtract(wanted, unconfirmed)
    if (proven.length > 0) {
      await addCoverage(trx, streamOf(key), proven)
      await callFunction(
        trx,
        'recorder.close_gaps',
        ...seriesValues(streamOf(key)),
        multirangeText(proven),
        new Date(at),
        'history',
      )
    }
    if (fresh.length > 0) await judgeAgain(trx, key, covered)
    return { inserted: fresh.length, refusal: null, lacking, cut }
  })
}

/** Has gaps compared with their candles once more, because fills of the same minutes were stored. */
async function judgeAgain(trx: Kysely<Database>, key: FillKey, { from, to }: TimeRange): Promise<void> {
  const minutes = { from: minuteOf(from), to: addMs(minuteOf(to), minuteMs) }
  await trx
    .updateTable('recorder.ledger')
    .set({ judged_at: null })
    .where(ofSeries(streamOf(key)))
    .where('verdict', 'in', ['missing', 'lost'])
    .where('ranges', '&&', multirange([minutes]))
    .where('judged_at', 'is not', null)
    .execute()
}

/** Returns why a history disagrees with the stored fills of the same time; null if it agrees. */
function whyRefused(known: readonly StoredFill[], fills: readonly Fill[]): JoinRefusal | null {
  const shown = new Map(fills.map((fill) => [fill.execId, fill]))
  const shared = known.filter(({ execId }) => shown.has(execId))
  const isOther = ({ execId, ts, side, price, size }: StoredFill) => {
    const fill = shown.get(execId)
    return (
      fill !== undefined &&
      (fill.ts !== ts || fill.side !== side || !isSame(fill.price, price) || !isSame(fill.size, size))
    )
  }
  if (shared.some(isOther)) return 'other values'
  if (shared.length === known.length) return null
  // A late history does not show the newest stored fills yet. It may still have the same ids for them.
  const times = fills.map(({ ts }) => ts)
  const [oldest, newest] = [Math.min(...times), Math.max(...times)]
  const isAmong = known.some(({ ts }) => ts >= oldest && ts <= newest)
  return shared.length === 0 && isAmong ? 'other ids' : 'incomplete'
}

/** Compares decimals without their trailing zeros. */
function isSame(a: string, b: string): boolean {
  const trimmed = (text: string) => (text.includes('.') ? text.replace(/\.?0+$/, '') : text)
  return trimmed(a) === trimmed(b)
}

/** How long a minute waits for its candle before it is claimed without one. */
const candleLateMs = hourMs

/**
 * Finds wanted minutes whose candle does not confirm the stored fills. It has another volume, has not arrived, or the
 * fills of the minute's rest are unknown. A candle is expected from the first recorded one on. In the last hour it is
 * expected only if candles are recorded now.
 */
async function unconfirmedMinutes(
  trx: Kysely<Database>,
  key: FillKey,
  { wanted, shown, at, hasCandles }: PastFillsPage,
): Promise<TimeRange[]> {
  const [first, last] = [wanted[0], wanted.at(-1)]
  if (first === undefined || last === undefined) return []
  const candles = candleStream({ ...key, type: 'market', interval: '1m' })
  const [from, to] = [minuteOf(first.from), last.to]
  const minuteLater = addMs(to, minuteMs)
  const around = (series: Series) => sql`
    select coalesce(range_agg(r), '{}') as ranges from recorder.ledger k cross join lateral unnest(k.ranges) as r
    where ${knownOf(series, 'recorded', 'k')} and k.part < ${instant(minuteLater)}
      and k.ranges && ${timeRange({ from, to: minuteLater })}`
  const { rows } = await sql<TimeRange>`
    with fills as materialized (select ranges + ${multirange([shown])} as ranges from (${around(streamOf(key))}) as known),
    candles as materialized (${around(candles)}),
    recorded as materialized (
      select min(lower(ranges)) as since, max(upper(ranges)) + ${duration(candleLateMs)} as until
      from recorder.ledger where ${knownOf(candles, 'recorded')}
    )
    select minute as "from", minute + interval '1 minute' as "to"
    from recorder.fill_minutes(${key.category}, ${key.symbol}, ${instant(from)}, ${instant(to)})
    cross join lateral tstzrange(minute, minute + interval '1 minute') as whole
    cross join fills cross join candles cross join recorded
    where ${multirange(wanted)} && whole
      and (minute >= recorded.since and minute < recorded.until or ${hasCandles} and minute >= ${instant(at - candleLateMs)})
      and (not fills.ranges @> whole or not candles.ranges @> whole or volume <> size)
    order by 1`.execute(trx)
  return rows
}

/** Notes why a range is not stored. The reason goes to the gaps in the range, or to a new gap if there are none. */
export async function explainFills(
  db: Kysely<Database>,
  key: FillKey,
  range: TimeRange,
  reason: string,
): Promise<void> {
  const { numUpdatedRows } = await db
    .updateTable('recorder.ledger')
    .set({ reason })
    .where(ofSeries(streamOf(key)))
    .where('verdict', 'in', ['missing', 'lost'])
    .where('ranges', '&&', multirange([range]))
    .executeTakeFirst()
  if (numUpdatedRows === 0n) await recordGap(db, { ...streamOf(key), range, reason })
}
