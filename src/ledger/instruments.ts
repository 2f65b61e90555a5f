import { type Kysely, sql } from 'kysely'
import type { Category } from '../market/category.js'
import { type Instrument, instrumentFields, type InstrumentKind, kindOf } from '../market/instrument.js'
import type { TimeMs } from '../market/values.js'
import { columnNames, instant } from '../db/columns.js'
import { inTransaction } from '../db/database.js'
import { lockInTransaction, lockNames } from '../db/locks.js'
import type { Database } from '../db/schema.js'
import { rowTable } from '../db/writeRows.js'
import type { RpiSymbol } from '../market/rows.js'
import { recordVersions, type VersionsResult } from './versions.js'

type Listed = Omit<Instrument, 'category'> & { readonly kind: InstrumentKind }

const { columns, source } = rowTable<Listed>('market.instruments', ['category', 'symbol'], {
  symbol: 'text',
  kind: 'text',
  ...instrumentFields,
  extra: 'json',
})
const specification = columns.filter(({ name }) => name !== 'symbol')
/** Columns whose change opens a new version. Unknown fields do not, because they may change with every list. */
const compared = specification.filter(({ name }) => name !== 'extra')

/**
 * Stores instruments of one category as the service described them at `seenAt`, and keeps their history. A change
 * closes the open version and opens a new one. With `complete`, instruments that are not in the list are gone, and
 * their versions close. An instrument stays as it is if a later response described it. Runs as one transaction.
 */
export async function recordInstruments(
  db: Kysely<Database>,
  category: Category,
  instruments: readonly Instrument[],
  seenAt: TimeMs,
  options: { readonly complete?: boolean } = {},
): Promise<VersionsResult> {
  const stray = instruments.find((instrument) => instrument.category !== category)
  if (stray) throw new RangeError(`${stray.symbol} is of ${stray.category}, not of ${category}`)
  // The later entry counts when a response contains an instrument twice.
  const bySymbol = new Map(instruments.map((one) => [one.symbol, { ...one, kind: kindOf(one) }]))
  return inTransaction(db, async (trx) => {
    // Takes a lock, because two recorders could otherwise both open a version.
    await lockInTransaction(trx, lockNames.instruments(category))
    const differing = await findDiffering(trx, category, [...bySymbol.values()], seenAt)
    const gone = options.complete === true ? await closeMissing(trx, category, [...bySymbol.keys()], seenAt) : 0
    const rows = differing.flatMap(({ symbol }) => bySymbol.get(symbol) ?? [])
    if (rows.length > 0) await openVersions(trx, category, rows, seenAt)
    const updated = differing.filter(({ isOpen }) => isOpen).length
    return {
      inserted: differing.length - updated,
      updated,
      unchanged: instruments.length - differing.length,
      disappeared: gone,
    }
  })
}

/** Finds instruments that differ from their newest version. Usually there are none, and no further work is needed. */
async function findDiffering(
  db: Kysely<Database>,
  category: Category,
  instruments: readonly Listed[],
  seenAt: TimeMs,
): Promise<{ symbol: string; isOpen: boolean }[]> {
  if (instruments.length === 0) return []
  const { rows } = await sql<{ symbol: string; isOpen: boolean }>`
    select incoming.symbol, known.symbol is not null and known.valid_to is null as "isOpen"
    from ${source(instruments)} as incoming
    left join (
      select distinct on (symbol) * from market.instrument_history
      where category = ${category} order by symbol, valid_from desc
    ) as known on known.symbol = incoming.symbol
    where known.symbol is null
      or (known.valid_to is not null and known.valid_to <= ${instant(seenAt)})
      or (known.valid_to is null and known.valid_from <= ${instant(seenAt)}
        and (${columnNames(compared, 'known')}) is distinct from (${columnNames(compared, 'incoming')}))
  `.execute(db)
  return rows
}

async function openVersions(
  db: Kysely<Database>,
  category: Category,
  instruments: readonly Listed[],
  seenAt: TimeMs,
): Promise<void> {
  const at = instant(seenAt)
  const symbols = instruments.map(({ symbol }) => symbol)
  await db
    .updateTable('market.instrument_history')
    .set({ valid_to: new Date(seenAt) })
    .where('category', '=', category)
    .where((eb) => eb('symbol', '=', eb.fn.any(eb.val(symbols))))
    .where('valid_to', 'is', null)
    .where('valid_from', '<', at)
    .execute()
  // Deletes what is known of the old listing of a relisted instrument. It says nothing about the new listing.
  await sql`
    delete from recorder.known e using ${source(instruments)} as incoming, market.instruments listed
    where listed.category = ${category} and listed.symbol = incoming.symbol
      and listed.launch_time is distinct from incoming.launch_time
      and e.stream = 'candles' and e.category = ${category} and e.symbol = listed.symbol
      and e.verdict in ('before the beginning', 'unanswered')`.execute(db)
  // A second response of the same moment replaces the version that the first one opened.
  await sql`
    insert into market.instrument_history (category, ${columnNames(columns)}, valid_from)
    select ${category}, ${columnNames(columns)}, ${at} from ${source(instruments)} as incoming
    on conflict (category, symbol, valid_from) do update set ${assignments}, valid_to = null`.execute(db)
  await sql`
    insert into market.instruments (category, ${columnNames(columns)}, first_seen_at, updated_at)
    select ${category}, ${columnNames(columns)}, ${at}, ${at} from ${source(instruments)} as incoming
    on conflict (category, symbol) do update
      set ${assignments}, updated_at = excluded.updated_at, disappeared_at = null`.execute(db)
}

const assignments = sql.raw(specification.map(({ name }) => `"${name}" = excluded."${name}"`).join(', '))

async function closeMissing(
  db: Kysely<Database>,
  category: Category,
  symbols: readonly string[],
  seenAt: TimeMs,
): Promise<number> {
  const at = instant(seenAt)
  const closed = await db
    .updateTable('market.instrument_history')
    .set({ valid_to: new Date(seenAt) })
    .where('category', '=', category)
    .where('valid_to', 'is', null)
    .where('valid_from', '<', at)
    .where((eb) => eb('symbol', '<>', eb.fn<string>('all', [eb.val(symbols)])))
    .returning('symbol')
    .execute()
  const gone = closed.map(({ symbol }) => symbol)
  if (gone.length > 0)
    await db
      .updateTable('market.instruments')
      .set({ disappeared_at: new Date(seenAt) })
      .where('category', '=', category)
      .where((eb) => eb('symbol', '=', eb.fn.any(eb.val(gone))))
      .execute()
  return gone.length
}

const rpiSymbols = rowTable<Pick<RpiSymbol, 'category' | 'symbol'>>('market.rpi_symbols', ['category', 'symbol'], {
  category: 'category',
  symbol: 'text',
})

/** Stores the RPI list of `seenAt` as periods of membership. With `complete`, symbols not on the list have left. */
export async function recordRpiSymbols(
  db: Kysely<Database>,
  rows: readonly RpiSymbol[],
  seenAt: TimeMs,
  options: { readonly complete?: boolean } = {},
): Promise<VersionsResult> {
  const whole = options.complete === true ? sql<boolean>`true` : null
  return recordVersions(db, 'rpi_symbols', rpiSymbols, { rows, seenAt, whole, compared: [] })
}
