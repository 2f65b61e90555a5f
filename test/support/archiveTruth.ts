import { sql } from 'kysely'
import type { RecorderDatabase } from '../../src/db/database.js'
import type { ArchiveTarget } from '../../src/files/layout/target.js'
import { type ArchiveMarket, candleSeries, fillSeries } from './archiveMarket.js'
import type { Pointers } from '../../src/files/iceberg/catalog.js'
import { hintsOf, rowsOfFolder, type ShownRow } from './archives.js'

const hourMs = 3_600_000

/** What was acknowledged: the price of each fill, and the close of each candle, by symbol and time. */
export interface Truth {
  readonly fills: Map<string, string>
  readonly candles: Map<string, string>
  /** Rows that have left the database, with the values that they had then. */
  readonly final: Map<string, string>
  /** Those of them that this database knows to have left. None of them may come back. */
  readonly left: Set<string>
  /** What files of the archive held, which are read again when they have changed. */
  readonly files: Map<string, ShownRow[]>
}

type Rows = ReadonlyMap<string, string>
type Range = readonly [from: number, to: number]

/**
 * Returns what is wrong now; null if nothing is. Every acknowledged row has to be in the database or in the current
 * snapshot, in the snapshot once, with its value; what has left keeps the value that it had. No claim is without its
 * rows, and no fill is missing without a gap. The truth takes over what has left.
 */
export async function archiveViolations(
  { db }: RecorderDatabase,
  target: ArchiveTarget,
  market: ArchiveMarket,
  truth: Truth,
  isCopy: boolean,
): Promise<string | null> {
  const pointers = await hintsOf(target)
  for (const table of ['fills', 'candles'] as const) {
    const [time, value] = table === 'fills' ? ['ts', 'price'] : ['open_time', 'close']
    const stored = await sql<{ key: string; value: string }>`
      select symbol || ' ' || (extract(epoch from ${sql.ref(time)}) * 1000)::bigint as key, ${sql.ref(value)}::text as value
      from ${sql.table(`market.${table}`)} where ${sql.raw(table === 'candles' ? 'is_closed' : 'true')}`.execute(db)
    const inDatabase = new Map(stored.rows.map((row) => [row.key, plain(row.value)]))
    const inSnapshot = new Map<string, string>()
    for (const [key, found] of await archivedRows(target, table, truth, pointers)) {
      if (inSnapshot.has(key)) return `${table}: the archive has ${key} twice`
      inSnapshot.set(key, found)
    }
    const wrong = rowsViolated(table, truth, { inDatabase, inSnapshot, isCopy })
    if (wrong !== null) return wrong
    const hole = table === 'fills' && !isCopy ? await findHole(db, market, inDatabase, inSnapshot) : null
    if (hole !== null) return `fills: ${hole} is nowhere, and in no gap`
    const claims = await readClaims(db, target, table, truth, pointers)
    for (const [key] of rowsOfMarket(market, table)) {
      for (const [where, rows] of [
        ['database', inDatabase],
        ['archive', inSnapshot],
      ] as const) {
        const [symbol = '', at = ''] = key.split(' ')
        const ranges = claims[where].get(symbol) ?? []
        const isClaimed = ranges.some(([from, to]) => Number(at) >= from && Number(at) < to)
        if (isClaimed && !rows.has(key)) return `${table}: the ${where} claims ${key}, which is not there`
      }
    }
  }
  return null
}

/** Reads the rows of the current snapshot: the key of each, and its price or close. */
export async function archivedRows(
  target: ArchiveTarget,
  table: 'fills' | 'candles',
  { files }: Truth,
  pointers: Pointers,
): Promise<(readonly [key: string, value: string])[]> {
  const [time, value] = table === 'fills' ? ['ts', 'price'] : ['open_time', 'close']
  const rows = await rowsOfFolder(target, table, files, pointers)
  return rows.map((row) => [`${row['symbol']} ${Number(row[time]) / 1000}`, plain(row[value] ?? '')])
}

function rowsViolated(
  table: 'fills' | 'candles',
  truth: Truth,
  {
    inDatabase,
    inSnapshot,
    isCopy,
  }: { readonly inDatabase: Rows; readonly inSnapshot: Rows; readonly isCopy: boolean },
): string | null {
  for (const [key, value] of truth[table]) {
    const own = `${table} ${key}`
    const [stored, archived] = [inDatabase.get(key), inSnapshot.get(key)]
    if (stored === undefined && archived === undefined) return `${table}: ${key} is lost`
    const final = truth.final.get(own)
    if (final !== undefined) {
      if (stored === undefined && !isCopy) truth.left.add(own)
      if (stored !== undefined && truth.left.has(own)) return `${table}: ${key} has left, and was stored again`
      if (archived !== final) return `${table}: ${key} was ${final} when it left, and is ${archived} in the archive`
    } else if (stored === undefined) {
      if (archived !== value) return `${table}: ${key} left as ${archived}, and was ${value}`
      truth.final.set(own, value)
      truth.left.add(own)
    } else if (stored !== value && archived !== stored && archived !== value) {
      return `${table}: ${key} is ${stored}, and was acknowledged as ${value}`
    }
  }
  return null
}

function* rowsOfMarket(market: ArchiveMarket, table: 'fills' | 'candles'): Generator<readonly [key: string]> {
  if (table === 'fills') {
    for (const series of fillSeries) for (const { symbol, ts } of market.fills(series)) yield [`${symbol} ${ts}`]
    return
  }
  for (let open = market.lastOpen() - hourMs; open > market.lastOpen() - 60 * 24 * hourMs; open -= hourMs)
    yield [`${candleSeries.symbol} ${open}`]
}

/** Returns a fill between what is known of its series that nobody has and no gap holds; null if there is none. */
async function findHole(
  db: RecorderDatabase['db'],
  market: ArchiveMarket,
  ...has: readonly Rows[]
): Promise<string | null> {
  const { rows } = await sql<{ symbol: string; from: number; to: number; isGap: boolean }>`
    select symbol, lower(r) as "from", upper(r) as "to", verdict in ('missing', 'lost') as "isGap"
    from recorder.ledger cross join lateral unnest(ranges) as r
    where stream = 'fills' and verdict in ('recorded', 'final', 'missing', 'lost')`.execute(db)
  for (const [key] of rowsOfMarket(market, 'fills')) {
    if (has.some((one) => one.has(key))) continue
    const [symbol = '', time = ''] = key.split(' ')
    const at = Number(time)
    const own = rows.filter((row) => row.symbol === symbol)
    const known = own.filter(({ isGap }) => !isGap)
    const isBetween = known.some(({ from }) => from <= at) && known.some(({ to }) => to > at)
    if (isBetween && !own.some(({ isGap, from, to }) => isGap && from <= at && to > at)) return key
  }
  return null
}

/** Reads what the database and the archive claim of each symbol. */
async function readClaims(
  db: RecorderDatabase['db'],
  target: ArchiveTarget,
  table: string,
  { files }: Truth,
  pointers: Pointers,
): Promise<Record<'database' | 'archive', ReadonlyMap<string, readonly Range[]>>> {
  const { rows } = await sql<{ symbol: string; from: number; to: number }>`
    select symbol, from_time as "from", to_time as "to" from market.coverage where stream = ${table}`.execute(db)
  const archived = (await rowsOfFolder(target, 'coverage', files, pointers))
    .filter((row) => row['stream'] === table)
    .map((row) => ({
      symbol: row['symbol'] ?? '',
      from: Number(row['from_time']) / 1000,
      to: Number(row['to_time']) / 1000,
    }))
  const bySymbol = (all: typeof rows) => {
    const found = new Map<string, Range[]>()
    for (const { symbol, from, to } of all) found.set(symbol, [...(found.get(symbol) ?? []), [from, to]])
    return found
  }
  return { database: bySymbol(rows), archive: bySymbol(archived) }
}

/** Zeros at the end do not count. */
function plain(decimal: string): string {
  return decimal.includes('.') ? decimal.replace(/\.?0+$/, '') : decimal
}
