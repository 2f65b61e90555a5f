import type { Kysely } from 'kysely'
import type { Config } from '../../config/resolve.js'
import {
  categories,
  type Category,
  type InstrumentKey,
  type TradedCategory,
  tradedCategories,
} from '../../market/category.js'
import type { TickerSigns } from '../../market/rows.js'
import { largest, type ServiceMs } from '../../market/values.js'
import { type Clock, sleepFor } from '../../runtime/clock.js'
import type { Logger } from '../../runtime/logger.js'
import { describeDatabaseError } from '../../db/databaseError.js'
import type { Database } from '../../db/schema.js'
import type { Batch } from '../../ledger/batch.js'
import {
  listedInstruments,
  listedRpiSymbols,
  newestTickerSigns,
  recentFillRates,
} from '../../ledger/read/instruments.js'
import { newestKnownOrNow } from '../../ledger/read/overview.js'
import { Universe } from '../universe/universe.js'
import type { WholeLists } from '../universe/wholeLists.js'

interface SharedListsOptions {
  readonly db: Kysely<Database>
  readonly config: Config
  readonly universe: Universe
  readonly clock: Clock
  readonly serviceNow: () => ServiceMs | null
  readonly logger: Logger
  readonly signal: AbortSignal
}

/** Tickers of own instruments are read this often, because other recorders store them every few seconds. */
const ownTickersEveryMs = 2_000
/** Time between two reads of everything. Tickers of the other recorders' instruments only matter for ranks. */
const allEveryMs = 60_000

/**
 * Keeps lists that other recorders request up to date here, by reading them from the database. While the database is
 * away, the lists stay as they are. Does nothing for a recorder that requests all lists itself. Ends with `signal`.
 */
export async function keepReadingLists(options: SharedListsOptions): Promise<void> {
  const { clock, signal, logger } = options
  let allAtMs = -Infinity
  while (await sleepFor(clock, ownTickersEveryMs, signal)) {
    const foreign = foreignLists(options)
    if (foreign === null) continue
    const nowMs = clock.monotonicMs()
    try {
      const isAll = nowMs - allAtMs >= allEveryMs
      if (isAll) await readLists(options, foreign)
      await readTickers(options, foreign, isAll)
      if (isAll) allAtMs = nowMs
    } catch (error) {
      logger.debug(`lists of other recorders could not be read: ${describeDatabaseError(error)}`)
    }
  }
}

/** Resolves to the market by the newest lists in the database; null if it has none. */
export async function recordedUniverse(db: Kysely<Database>): Promise<Universe | null> {
  const universe = new Universe()
  const all = { instruments: categories, tickers: tradedCategories, rpiSymbols: true }
  await readLists({ db, universe }, all)
  const tickers = await readTickers({ db, universe }, all, true)
  // The newest ticker tells the service's time. Without one, turnovers are unknown, too.
  if (tickers.length > 0) universe.setFillRates(await recentFillRates(db, largest(tickers.map(({ ts }) => ts))))
  return universe.planned().instruments.length === 0 ? null : universe
}

/**
 * Takes the recorded lists for those before the first ones of this run. One that is cut off is then recognised, and what
 * it lacks is recorded all the same. Rejects if the database cannot be read.
 */
export async function takeRecordedLists(
  { streams }: Config,
  db: Kysely<Database>,
  { universe, wholeLists }: { readonly universe: Universe; readonly wholeLists: WholeLists },
): Promise<void> {
  const instruments = streams.instruments.enabled ? streams.instruments.categories : []
  const lists = { instruments, tickers: [], rpiSymbols: streams.rpiSymbols.enabled }
  await readLists({ db, universe }, lists, (list) => wholeLists.recorded(list))
}

interface Lists {
  readonly instruments: readonly Category[]
  readonly tickers: readonly TradedCategory[]
  readonly rpiSymbols: boolean
}

/** Names the lists that other recorders request; null if there are none. */
function foreignLists({ config, serviceNow, universe }: SharedListsOptions): Lists | null {
  const { ownership } = universe
  const { streams } = config
  const instruments = streams.instruments.enabled
    ? streams.instruments.categories.filter((category) => !ownership.hasList('instruments', category))
    : []
  // Skip tickers that this recorder has just requested for its fills: the stored ones would be older.
  const areRecent = (category: TradedCategory) =>
    (serviceNow() ?? Infinity) - (universe.tickersAt(category) ?? -Infinity) < ownTickersEveryMs
  const tickers = streams.tickers.enabled
    ? streams.tickers.categories.filter((category) => !areRecent(category) && !ownership.hasList('tickers', category))
    : []
  const rpiSymbols = streams.rpiSymbols.enabled && !ownership.hasList('rpi_symbols', null)
  return rpiSymbols || instruments.length + tickers.length > 0 ? { instruments, tickers, rpiSymbols } : null
}

type Target = Pick<SharedListsOptions, 'db' | 'universe'> & Partial<Pick<SharedListsOptions, 'serviceNow'>>

/** An empty result means that no list is stored yet, not that the list is empty. */
const isStored = ({ rows }: Pick<Batch, 'rows'>) => rows.length > 0

/** Reads lists, and takes those that count: by default all that are stored. */
async function readLists(
  { db, universe }: Target,
  lists: Lists,
  counts: (list: Pick<Batch, 'stream' | 'target' | 'rows'>) => boolean = isStored,
): Promise<void> {
  const listed = await listedInstruments(db, lists.instruments)
  for (const category of lists.instruments) {
    const rows = listed.filter((instrument) => instrument.category === category)
    if (counts({ stream: 'instruments', target: { category }, rows })) universe.setInstruments(category, rows, true)
  }
  if (!lists.rpiSymbols) return
  const rows = await listedRpiSymbols(db)
  if (counts({ stream: 'rpi_symbols', target: {}, rows })) universe.setRpiSymbols(rows, true)
}

/** Reads the stored tickers of this recorder's own instruments or, if `isAll`, of all instruments. */
async function readTickers(
  { db, universe, serviceNow }: Target,
  foreign: Lists,
  isAll: boolean,
): Promise<readonly TickerSigns[]> {
  const categories = new Set<string>(foreign.tickers)
  const isWanted = (key: InstrumentKey) =>
    categories.has(key.category) && (isAll || universe.ownership.hasInstrument(key))
  const wanted = universe.planned().instruments.filter(isWanted)
  const tickers = await newestTickerSigns(db, wanted, serviceNow?.() ?? (await newestKnownOrNow(db)))
  universe.setTickers(tickers)
  return tickers
}
