import { normalized, subtract, type TimeRange } from '../../market/timeRange.js'
import { serviceMs } from '../../market/values.js'
import { seriesKey, type SeriesProof } from './manifest.js'
import type { Snapshot } from './rows.js'
import { type ArchivedTable, type Day, dayEnd, dayStart } from './tables.js'

type Ranges = [string, string][]
type Part = Partial<Pick<SeriesProof, 'coverage' | 'empty' | 'noTrade' | 'noTradeConfirmed'>> &
  Partial<Pick<SeriesProof, 'gaps' | 'revisions' | 'restatements'>>

const series = 'category::text, symbol, type::text, interval::text'
const inDay = 'tstzrange($2::timestamptz, $3::timestamptz)'
const rangesJson = (multirange: string) =>
  `(select coalesce(json_agg(json_build_array(lower(r), upper(r)) order by r), '[]') from unnest(${multirange}) as r)`

/** Reads the proof of each series of a table on a day, always in one order. Leaves out series without proof. */
export async function readProof(snapshot: Snapshot, { stream }: ArchivedTable, day: Day): Promise<SeriesProof[]> {
  if (stream === null) return []
  const found = new Map<string, SeriesProof>()
  const collect = async (sql: string, read: (known: SeriesProof, json: unknown) => Part) => {
    const rows = await snapshot.query(sql, [stream, new Date(dayStart(day)), new Date(dayEnd(day))])
    for (const [category, symbol, type, interval, json] of rows) {
      const nothing = nothingKnown(stream, [category, symbol, type, interval])
      const key = seriesKey(nothing)
      const known = found.get(key) ?? nothing
      found.set(key, { ...known, ...read(known, withShortTimes(JSON.parse(json ?? 'null'))) })
    }
  }
  for (const [verdict, name] of [
    ['recorded', 'coverage'],
    ['before the beginning', 'empty'],
  ] as const) {
    await collect(
      `select ${series}, ${rangesJson('ranges')} from (
         select category, symbol, type, interval, range_agg(r) as ranges
         from recorder.ledger cross join lateral unnest(ranges * tstzmultirange(${inDay})) as r
         where stream = $1 and verdict = '${verdict}' and ranges && ${inDay}
         group by category, symbol, type, interval
       ) as known`,
      (_, json) => ({ [name]: json as Ranges }),
    )
  }
  await collect(
    `select ${series}, json_build_object('from', part, 'to', upper(ranges), 'reason', reason,
       'state', case verdict when 'missing' then 'open' else verdict end, 'detectedAt', noted_at,
       'repairedAt', case verdict when 'repaired' then settled_at end, 'lostAt', case verdict when 'lost' then settled_at end)
     from recorder.ledger
     where stream = $1 and verdict in ('missing', 'lost', 'repaired') and ranges && ${inDay}
     order by part, upper(ranges), verdict`,
    (known, json) => ({ gaps: [...known.gaps, json as SeriesProof['gaps'][number]] }),
  )
  if (stream === 'candles') await collectCandles(collect)
  const sorted = [...found].toSorted(([a], [b]) => (a < b ? -1 : 1))
  return sorted.map(([, proof]) => proof)
}

async function collectCandles(
  collect: (sql: string, read: (known: SeriesProof, json: unknown) => Part) => Promise<void>,
): Promise<void> {
  // A range is stored in the part of the ledger where it begins, even if it ends later.
  await collect(
    `select ${series}, json_build_object('noTrade', ${rangesJson('silent')}, 'noTradeConfirmed', ${rangesJson('looked_at')})
     from (
       select category, symbol, type, interval, range_agg(r) as silent,
         coalesce(range_agg(r) filter (where verdict = 'no trade'), '{}') as looked_at
       from recorder.ledger cross join lateral unnest(ranges * tstzmultirange(${inDay})) as r
       where stream = $1 and verdict in ('silent', 'no trade') and part < $3::timestamptz and upper(ranges) > $2::timestamptz
       group by category, symbol, type, interval
     ) n`,
    (_, json) => json as Pick<SeriesProof, 'noTrade' | 'noTradeConfirmed'>,
  )
  const values = (when: 'old' | 'new') =>
    ['open', 'high', 'low', 'close', 'base_volume', 'quote_turnover'].map((name) => `${when}_${name}::text`).join(', ')
  await collect(
    `select ${series}, json_build_object('openTime', open_time, 'revisedAt', revised_at,
       'old', json_build_array(${values('old')}), 'new', json_build_array(${values('new')}))
     from recorder.candle_revision
     where $1 = 'candles' and open_time >= $2::timestamptz and open_time < $3::timestamptz
     order by open_time, revised_at, id`,
    (known, json) => ({ revisions: [...known.revisions, json as SeriesProof['revisions'][number]] }),
  )
  await collect(
    `select ${series}, json_build_object('from', from_time, 'to', to_time, 'numerator', numerator::text,
       'denominator', denominator::text, 'candles', candles, 'detectedAt', detected_at)
     from recorder.restatement
     where $1 = 'candles' and from_time < $3::timestamptz and to_time > $2::timestamptz
     order by from_time, to_time, detected_at, id`,
    (known, json) => ({ restatements: [...known.restatements, json as SeriesProof['restatements'][number]] }),
  )
}

function nothingKnown(
  stream: string,
  [category, symbol, type, interval]: readonly (string | null | undefined)[],
): SeriesProof {
  return {
    stream,
    category: (category ?? '') as SeriesProof['category'],
    symbol: symbol ?? '',
    type: type ?? '',
    interval: interval ?? '',
    coverage: [],
    empty: [],
    noTrade: [],
    noTradeConfirmed: [],
    gaps: [],
    revisions: [],
    restatements: [],
  }
}

/** Shortens times such as `2026-03-01T00:00:00+00:00` to `2026-03-01T00:00:00Z`. */
function withShortTimes(value: unknown): unknown {
  if (typeof value === 'string') return value.replace(/^(\d{4,}-\d{2}-\d{2}T[\d:.]+)\+00:00$/, '$1Z')
  if (Array.isArray(value)) return value.map(withShortTimes)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withShortTimes(inner)]))
}

/**
 * Merges two proofs of a day when each side may know only a part. The database takes precedence for ranges that it
 * knows in full, and for gaps that both know.
 */
export function mergeProof(archived: readonly SeriesProof[], own: readonly SeriesProof[]): SeriesProof[] {
  const merged = new Map(archived.map((one) => [seriesKey(one), one]))
  for (const one of own) {
    const former = merged.get(seriesKey(one))
    merged.set(seriesKey(one), former === undefined ? one : mergeSeries(former, one))
  }
  return [...merged].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, proof]) => proof)
}

function mergeSeries(archived: SeriesProof, own: SeriesProof): SeriesProof {
  const known = rangesOf(own.coverage)
  const merge = (name: 'empty' | 'noTrade' | 'noTradeConfirmed') =>
    textsOf([...subtract(rangesOf(archived[name]), known), ...rangesOf(own[name])])
  return {
    ...own,
    coverage: textsOf([...rangesOf(archived.coverage), ...known]),
    empty: merge('empty'),
    noTrade: merge('noTrade'),
    noTradeConfirmed: merge('noTradeConfirmed'),
    gaps: distinctGaps([...own.gaps, ...archived.gaps]),
    revisions: distinct(
      [...own.revisions, ...archived.revisions],
      (one) => `${one.openTime} ${one.revisedAt}`,
      'openTime',
    ),
    restatements: distinctRestatements([...own.restatements, ...archived.restatements]),
  }
}

/** Keeps the first of the gaps over the same range. */
export function distinctGaps(gaps: SeriesProof['gaps']): SeriesProof['gaps'] {
  return distinct(gaps, ({ from, to }) => `${from} ${to}`, 'from')
}

/** Keeps the first of equal restatements. */
export function distinctRestatements(all: SeriesProof['restatements']): SeriesProof['restatements'] {
  return distinct(all, ({ from, to, detectedAt }) => `${from} ${to} ${detectedAt}`, 'from')
}

/** Keeps the first entry of each key. Sorts the result by a time. */
function distinct<Time extends string, One extends Readonly<Record<Time, string>>>(
  all: readonly One[],
  key: (one: One) => string,
  time: Time,
): One[] {
  const found = new Map<string, One>()
  for (const one of all) if (!found.has(key(one))) found.set(key(one), one)
  return [...found.values()].toSorted((a, b) => Date.parse(a[time]) - Date.parse(b[time]))
}

function rangesOf(ranges: Ranges): TimeRange[] {
  return normalized(ranges.map(([from, to]) => ({ from: serviceMs(Date.parse(from)), to: serviceMs(Date.parse(to)) })))
}

/** Formats ranges as the server does, without trailing zeros in seconds. */
function textsOf(ranges: readonly TimeRange[]): Ranges {
  const text = (time: number) => new Date(time).toISOString().replace(/\.?0*Z$/, 'Z')
  return normalized(ranges).map(({ from, to }) => [text(from), text(to)])
}
