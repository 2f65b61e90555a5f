import { type Kysely, type Selectable, sql } from 'kysely'
import type { CandleSeries } from '../market/candle.js'
import type { Category, InstrumentKey, TradedCategory } from '../market/category.js'
import type { StreamName } from '../market/stream.js'
import type { TimeRange } from '../market/timeRange.js'
import type { ServiceMs } from '../market/values.js'
import { instant, rowsFrom } from '../db/columns.js'
import { callFunction } from '../db/database.js'
import type { Database, GapState } from '../db/schema.js'
import { candlesOf, keyColumns, sameSeries, type Series, seriesValues, seriesOf } from '../db/series.js'
import { gapRange, hasVerdict, multirangeText } from './verdicts.js'
import { attemptsWhere, type RepairAttempts } from './wants.js'

/** Verdicts on gaps. The views of users call a `missing` range an open gap. */
const gapVerdicts = ['missing', 'lost', 'repaired'] as const

/** A gap that has just been found. */
export interface NewGap extends Series {
  readonly range: TimeRange
  readonly reason: string
  /** `lost` if the service is known to be unable to fill the gap. Default: `missing`. */
  readonly verdict?: 'missing' | 'lost'
  /** Time when the gap was found. Default: now, by the database's clock. */
  readonly detectedAt?: ServiceMs
}

/** A gap in the words of market.gaps. */
export interface Gap extends Series {
  readonly id: number
  readonly range: TimeRange
  readonly reason: string
  readonly state: GapState
  readonly detectedAt: ServiceMs
  readonly repairedAt: ServiceMs | null
  readonly lostAt: ServiceMs | null
}

/**
 * Records a gap. A gap that is already known changes nothing. Of two gaps with the same beginning the longer one stays.
 * Throws if the range is empty.
 */
export async function recordGap(db: Kysely<Database>, gap: NewGap): Promise<void> {
  const { range, reason, verdict = 'missing', detectedAt } = gap
  if (!(range.from < range.to))
    throw new RangeError(`a gap must begin before it ends, got ${range.from} to ${range.to}`)
  const at = detectedAt === undefined ? null : new Date(detectedAt)
  await callFunction(db, 'recorder.note_gaps', ...seriesValues(gap), verdict, multirangeText([range]), reason, at)
}

/** Notes as gaps what is in none yet, and what no open want asks for. */
export async function noteUnknown(
  db: Kysely<Database>,
  found: readonly { readonly series: Series; readonly ranges: readonly TimeRange[] }[],
  reason: string,
): Promise<void> {
  if (found.length === 0) return
  const keys = found.map(({ series, ranges }) => [...seriesValues(series), multirangeText(ranges)])
  const source = rowsFrom(keys, [...keyColumns, { name: 'ranges', kind: 'text' }], (key, column) => key[column] ?? null)
  await sql`
    with unknown as materialized (
      select s.*, s.ranges::tstzmultirange - coalesce((
          select range_agg(r) from recorder.want w cross join lateral unnest(w.ranges - w.done) as r
          where w.ended_at is null and ${sameSeries('w', 's')}), '{}') as rest
      from ${source} as s
    )
    select recorder.note_unknown(stream, category::market.category, symbol, type, interval, rest, ${reason})
    from unknown where not isempty(rest)`.execute(db)
}

/** Selects gaps. A gap must match every given field. */
export interface GapFilter {
  readonly verdicts?: readonly (typeof gapVerdicts)[number][]
  readonly streams?: readonly StreamName[]
  readonly categories?: readonly Category[]
  /** Returns true for the wanted symbols. A gap of all symbols counts for each of them. */
  readonly isSymbol?: (symbol: string) => boolean
}

/** Reads known gaps, oldest first. A filter narrows them, because there may be millions of lost ones. */
export async function listGaps(db: Kysely<Database>, filter: GapFilter = {}): Promise<Gap[]> {
  const rows = await (await gapsWhere(db, filter)).selectAll().orderBy('part').orderBy('id').execute()
  return rows.map(gapOf)
}

/**
 * Reads the newest gaps of each stream, state and reason, newest first: at most `limit` of each. `alike` is the number
 * of all gaps with the same stream, state and reason.
 */
export async function newestGaps(
  db: Kysely<Database>,
  filter: GapFilter,
  limit: number,
): Promise<(Gap & { readonly alike: number })[]> {
  const alike = sql`partition by stream, verdict, reason`
  const numbered = (await gapsWhere(db, filter))
    .selectAll()
    .select(sql<number>`count(*) over (${alike})`.as('alike'))
    .select(sql<number>`row_number() over (${alike} order by part desc, id desc)`.as('place'))
  const rows = await db
    .selectFrom(numbered.as('numbered'))
    .selectAll()
    .where('place', '<=', limit)
    .orderBy('part', 'desc')
    .orderBy('id', 'desc')
    .execute()
  return rows.map((row) => ({ ...gapOf(row), alike: row.alike }))
}

async function gapsWhere(db: Kysely<Database>, { verdicts, streams, categories, isSymbol }: GapFilter) {
  let query = db
    .selectFrom('recorder.ledger')
    .select(sql<ServiceMs>`upper(ranges)`.as('to'))
    .where('verdict', 'in', verdicts ?? gapVerdicts)
  if (streams !== undefined) query = query.where('stream', 'in', streams)
  if (categories !== undefined) query = query.where('category', 'in', categories)
  if (isSymbol === undefined) return query
  const known = await query.clearSelect().select('symbol').distinct().execute()
  const symbols = known.map(({ symbol }) => symbol).filter((symbol) => symbol === '*' || isSymbol(symbol))
  return query.where(({ eb, fn, val }) => eb('symbol', '=', fn.any(val(symbols))))
}

function gapOf(row: Selectable<Database['recorder.ledger']> & { readonly to: ServiceMs }): Gap {
  return {
    id: row.id,
    ...seriesOf(row),
    range: { from: row.part, to: row.to },
    reason: row.reason ?? '',
    state: row.verdict === 'missing' ? 'open' : (row.verdict as GapState),
    detectedAt: row.noted_at,
    repairedAt: row.verdict === 'repaired' ? row.settled_at : null,
    lostAt: row.verdict === 'lost' ? row.settled_at : null,
  }
}

/** Resolves to the series of candles that have open gaps. */
export async function candlesWithGaps(db: Kysely<Database>): Promise<CandleSeries[]> {
  const rows = await db
    .selectFrom('recorder.ledger')
    .select(['stream', 'category', 'symbol', 'type', 'interval'])
    .distinct()
    .where('stream', '=', 'candles')
    .where(hasVerdict('missing'))
    .execute()
  return rows.flatMap((row) => candlesOf(row) ?? [])
}

/** Marks open gaps of a stream that end by a time as lost, because the service gives nothing older. */
export async function loseGaps(
  db: Kysely<Database>,
  stream: StreamName,
  until: ServiceMs | 'infinity',
  categories: readonly Category[] | null = null,
): Promise<void> {
  const end = until === 'infinity' ? until : new Date(until)
  await callFunction(db, 'recorder.turn_gaps', stream, 'lost', '-infinity', end, categories)
}

/**
 * Marks lost gaps of a stream that end after a time as open, because the service still has that time. Forgets the ended
 * repairs that the service refused, so that their gaps are due at once.
 */
export async function reopenGaps(
  db: Kysely<Database>,
  stream: StreamName,
  since: ServiceMs,
  categories: readonly Category[],
): Promise<void> {
  await callFunction(db, 'recorder.turn_gaps', stream, 'missing', new Date(since), 'infinity', categories)
  await db
    .deleteFrom('recorder.want')
    .where('kind', '=', 'repair')
    .where('stream', '=', stream)
    .where('category', 'in', categories)
    .where('ended_at', 'is not', null)
    .where('failure', 'is not', null)
    .execute()
}

/** A gap in fills, with the repairs that were tried in vain. */
export interface FillGap extends InstrumentKey, RepairAttempts {
  readonly category: TradedCategory
  readonly id: number
  readonly range: TimeRange
  readonly reason: string
  /** Time since evidence against a claim of the gap was noted, or since the last repair ended; null without evidence. */
  readonly evidenceAgeMs: number | null
}

interface GapSelection {
  readonly verdict: 'missing' | 'lost'
  readonly categories: readonly TradedCategory[]
  /** Only gaps that end after this time are selected. */
  readonly since: ServiceMs
  /** Only gaps with a lower number than this are selected. Default: all. */
  readonly before?: number | null
  readonly limit: number
}

/** Reads gaps of single instruments. The gap that was noted last comes first. */
export async function selectFillGaps(
  db: Kysely<Database>,
  { verdict, categories, since, before, limit }: GapSelection,
): Promise<FillGap[]> {
  const { rows } = await sql<Omit<FillGap, 'range'> & TimeRange>`
    with due as materialized (
      select id, category, symbol, reason, ${gapRange} as range from recorder.ledger
      where stream = 'fills' and ${hasVerdict(verdict)} and symbol <> '*' and category = any (${categories})
        and id < ${before ?? Number.MAX_SAFE_INTEGER} and gap_until > ${instant(since)}
      order by id desc limit ${limit}
    )
    select id, category, symbol, reason, lower(range) as "from", upper(range) as "to", w.*, (
        select least((min(abs(extract(epoch from now() - e.noted_at))) * 1000)::float8, w."sinceMs")
        from recorder.ledger e
        where e.stream = 'fills' and e.category = due.category and e.symbol = due.symbol and e.type = '' and e.interval = ''
          and e.verdict in ('contradicted', 'disputed') and e.part > lower(due.range) - interval '1 minute'
          and e.part < upper(due.range) and e.ranges && due.range
      ) as "evidenceAgeMs"
    from due cross join lateral (${attemptsWhere(sql`
      w.stream = 'fills' and w.category = due.category and w.symbol = due.symbol and w.ranges && due.range`)}
    ) w order by id desc`.execute(db)
  return rows.map(({ from, to, ...gap }) => ({ ...gap, range: { from, to } }))
}
