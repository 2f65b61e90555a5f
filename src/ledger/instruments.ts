import { type Kysely, sql } from 'kysely'
import type { Category } from '../market/category.js'
import { type Instrument, instrumentFields, type InstrumentKind, kindOf } from '../market/instrument.js'
import type { ServiceMs } from '../market/values.js'
import { columnNames, instant } from '../db/columns.js'
import { callFunction, inTransaction } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { rowTable } from '../db/writeRows.js'
import type { RpiSymbol } from '../market/rows.js'
import { recordVersions, type VersionsResult } from './versions.js'

type Listed = Instrument & { readonly kind: InstrumentKind }

const history = rowTable<Listed>('market.instrument_history', ['category', 'symbol'], {
  category: 'category',
  symbol: 'text',
  kind: 'text',
  ...instrumentFields,
  extra: 'json',
})
const specification = history.columns.filter(({ name }) => !history.key.includes(name))
/** Columns whose change opens a new version. Unknown fields do not, because they may change with every list. */
const compared = specification.filter(({ name }) => name !== 'extra')
const assignments = sql.raw(specification.map(({ name }) => `"${name}" = excluded."${name}"`).join(', '))

/**
 * Stores instruments of one category as the service described them at `seenAt`, and keeps their history. With
 * `complete`, instruments that are not in the list are gone. An instrument stays as it is if a later response described
 * it. Runs as one transaction.
 */
export async function recordInstruments(
  db: Kysely<Database>,
  category: Category,
  instruments: readonly Instrument[],
  seenAt: ServiceMs,
  options: { readonly complete?: boolean } = {},
): Promise<VersionsResult> {
  const stray = instruments.find((instrument) => instrument.category !== category)
  if (stray) throw new RangeError(`${stray.symbol} is of ${stray.category}, not of ${category}`)
  const rows = instruments.map((one) => ({ ...one, kind: kindOf(one) }))
  const whole = options.complete === true ? sql<boolean>`known.category = ${category}` : null
  return inTransaction(db, async (trx) => {
    const result = await recordVersions(trx, history, { rows, seenAt, whole, compared })
    if (result.inserted + result.updated + result.disappeared > 0) await describeAnew(trx, category, seenAt)
    return result
  })
}

/** Describes the instruments whose newest versions begin or end at `seenAt` by these versions. */
async function describeAnew(trx: Kysely<Database>, category: Category, seenAt: ServiceMs): Promise<void> {
  const changed = sql`(
    select * from (
      select distinct on (symbol) * from market.instrument_history
      where category = ${category} order by symbol, valid_from desc
    ) as newest where ${instant(seenAt)} in (valid_from, valid_to)
  ) as changed`
  // Deletes what is known of the old listing of a relisted instrument. It says nothing about the new listing.
  await sql`
    delete from recorder.ledger e using ${changed}, market.instruments listed
    where listed.category = changed.category and listed.symbol = changed.symbol
      and listed.launch_time is distinct from changed.launch_time
      and e.stream = 'candles' and e.category = listed.category and e.symbol = listed.symbol
      and e.verdict in ('before the beginning', 'unanswered')`.execute(trx)
  await sql`
    insert into market.instruments (${columnNames(history.columns)}, first_seen_at, updated_at, disappeared_at)
    select ${columnNames(history.columns)}, valid_from, valid_from, valid_to from ${changed}
    on conflict (category, symbol) do update
      set ${assignments}, updated_at = excluded.updated_at, disappeared_at = excluded.disappeared_at`.execute(trx)
  const { rows } = await sql<{ symbol: string }>`
    select symbol from market.instruments
    where category = ${category} and disappeared_at = ${instant(seenAt)}`.execute(trx)
  const leftList = rows.map(({ symbol }) => symbol)
  await callFunction(trx, 'recorder.end_fills', category, leftList)
  await callFunction(trx, 'recorder.end_candles', category, leftList)
}

const rpiSymbols = rowTable<Pick<RpiSymbol, 'category' | 'symbol'>>('market.rpi_symbols', ['category', 'symbol'], {
  category: 'category',
  symbol: 'text',
})

/** Stores the RPI list of `seenAt` as periods of membership. With `complete`, symbols not on the list have left. */
export async function recordRpiSymbols(
  db: Kysely<Database>,
  rows: readonly RpiSymbol[],
  seenAt: ServiceMs,
  options: { readonly complete?: boolean } = {},
): Promise<VersionsResult> {
  const whole = options.complete === true ? sql<boolean>`true` : null
  return recordVersions(db, rpiSymbols, { rows, seenAt, whole, compared: [] })
}
