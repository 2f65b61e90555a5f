import type { StoredColumn } from './rowText.js'

/** A table of proof. Its rows of a day come from the ledger alone, or from what the ledger refers to. */
interface ProofTable {
  readonly name: string
  readonly timeColumn: string
  /** Columns after those of the series. */
  readonly columns: readonly StoredColumn[]
  /** SQL for the rows of a stream ($1) of the time from $2 to $3: the series, and `columns` in their stored form. */
  readonly sql: string
  /** True if its rows stay in the database when the rows of the day leave, and may change afterwards. */
  readonly isOwnedForGood: boolean
}

const columnsOf = (type: string, names: readonly string[]): StoredColumn[] => names.map((name) => ({ name, type }))
const series = columnsOf('text', ['category', 'symbol', 'stream', 'type', 'interval'])
const values = ['open', 'high', 'low', 'close', 'base_volume', 'quote_turnover']
const revised = ['old', 'new'].flatMap((when) => values.map((name) => `${when}_${name}`))

const micros = (time: string) => `(extract(epoch from ${time}) * 1000000)::bigint`
const seriesOf = (stream: string) =>
  `k.category::text, k.symbol, ${stream}, nullif(k.type::text, ''), nullif(k.interval::text, '')`
const inOrder = (last: string) =>
  `order by k.category::text, k.symbol collate "C", k.type::text, k.interval::text, ${last}`

/** SQL for the ranges of verdicts, each range with the day in which it begins. Candles belong to the day they open in. */
const ranges = (verdicts: string, more: { readonly select: string; readonly group: string }) => `
  select ${seriesOf('k.stream')}, ${micros('lower(r)')}, ${micros('upper(r)')}${more.select}
  from (
    select k.category, k.symbol, k.stream, k.type, k.interval${more.group}, range_agg(p) as parts
    from recorder.ledger k
    cross join lateral unnest(recorder.part_of_day(k.ranges, k.interval, $2::timestamptz, $3::timestamptz)) as p
    where k.stream = $1 and k.verdict in (${verdicts}) and k.part < $3::timestamptz
      and k.ranges && tstzrange($2::timestamptz, $3::timestamptz)
    group by k.category, k.symbol, k.stream, k.type, k.interval${more.group}
  ) k cross join lateral unnest(k.parts) as r
  ${inOrder('lower(r)')}`

function rangeTable(name: string, more: readonly StoredColumn[], sql: string, isOwnedForGood = false): ProofTable {
  const columns = [...columnsOf('timestamptz', ['from_time', 'to_time']), ...more]
  return { name, timeColumn: 'from_time', columns, sql, isOwnedForGood }
}

/** All tables of proof, with the columns of their series first. */
export const proofTables: readonly ProofTable[] = [
  rangeTable('coverage', [], ranges(`'recorded'`, { select: '', group: '' })),
  rangeTable(
    'no_trade',
    columnsOf('bool', ['is_confirmed']),
    ranges(`'silent', 'no trade'`, { select: `, k.verdict = 'no trade'`, group: ', k.verdict' }),
  ),
  rangeTable(
    'gaps',
    [
      ...columnsOf('text', ['reason', 'state', 'filled_from']),
      ...columnsOf('timestamptz', ['detected_at', 'settled_at']),
    ],
    `select ${seriesOf('k.stream')}, ${micros('greatest(k.part, $2::timestamptz)')},
       ${micros('least(upper(k.ranges), $3::timestamptz)')}, k.reason,
       case k.verdict when 'missing' then 'open' else k.verdict end, k.filled_from, ${micros('k.noted_at')},
       ${micros('k.settled_at')}
     from recorder.ledger k
     where k.stream = $1 and k.verdict in ('missing', 'lost', 'repaired')
       and k.ranges && tstzrange($2::timestamptz, $3::timestamptz)
     ${inOrder('k.part, upper(k.ranges), k.verdict')}`,
    true,
  ),
  {
    name: 'candle_revisions',
    timeColumn: 'open_time',
    columns: [
      ...columnsOf('timestamptz', ['open_time', 'revised_at']),
      ...columnsOf('numeric', revised),
      ...columnsOf('bool', ['is_restatement']),
    ],
    sql: `
      select ${seriesOf('$1::text')}, ${micros('k.open_time')}, ${micros('k.revised_at')},
        ${revised.map((name) => `k.${name}`).join(', ')}, k.is_restatement
      from recorder.candle_revision k
      where $1 = 'candles' and k.open_time >= $2::timestamptz and k.open_time < $3::timestamptz
      ${inOrder('k.open_time, k.revised_at, k.id')}`,
    isOwnedForGood: true,
  },
  {
    name: 'restatements',
    timeColumn: 'detected_at',
    columns: [
      ...columnsOf('timestamptz', ['from_time', 'to_time']),
      ...columnsOf('numeric', ['numerator', 'denominator']),
      ...columnsOf('int8', ['candles']),
      ...columnsOf('timestamptz', ['detected_at']),
    ],
    sql: `
      select ${seriesOf('$1::text')}, ${micros('k.from_time')}, ${micros('k.to_time')}, k.numerator, k.denominator,
        k.candles, ${micros('k.detected_at')}
      from recorder.restatement k
      where $1 = 'candles' and k.detected_at >= $2::timestamptz and k.detected_at < $3::timestamptz
      ${inOrder('k.from_time, k.to_time, k.detected_at, k.id')}`,
    isOwnedForGood: true,
  },
].map((table) => ({ ...table, columns: [...series, ...table.columns] }))
