import type { Kysely } from 'kysely'
import type { Config } from '../../config/resolve.js'
import type { InstrumentKey, TradedCategory } from '../../market/category.js'
import { type Clock, sleepFor } from '../../runtime/clock.js'
import type { Logger } from '../../runtime/logger.js'
import { describeDatabaseError } from '../../db/databaseError.js'
import type { Database } from '../../db/schema.js'
import { listedInstruments, listedRpiSymbols, newestTickerSigns } from '../../ledger/read/instruments.js'
import type { Universe } from '../universe/universe.js'

interface SharedListsOptions {
  readonly db: Kysely<Database>
  readonly config: Config
  readonly universe: Universe
  readonly clock: Clock
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
    if (!foreign.isAny) continue
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

interface ForeignLists {
  readonly isAny: boolean
  readonly instruments: Config['streams']['instruments']['categories']
  readonly tickers: readonly TradedCategory[]
  readonly rpiSymbols: boolean
}

function foreignLists({ config, clock, universe }: SharedListsOptions): ForeignLists {
  const { ownership } = universe
  const { streams } = config
  const instruments = streams.instruments.enabled
    ? streams.instruments.categories.filter((category) => !ownership.hasList('instruments', category))
    : []
  // Skip tickers that this recorder has just requested for its fills: the stored ones would be older.
  const areRecent = (category: TradedCategory) =>
    clock.now() - (universe.tickersAt(category) ?? -Infinity) < ownTickersEveryMs
  const tickers = streams.tickers.enabled
    ? streams.tickers.categories.filter((category) => !areRecent(category) && !ownership.hasList('tickers', category))
    : []
  const rpiSymbols = streams.rpiSymbols.enabled && !ownership.hasList('rpi_symbols', null)
  return { instruments, tickers, rpiSymbols, isAny: rpiSymbols || instruments.length + tickers.length > 0 }
}

async function readLists({ db, universe }: SharedListsOptions, foreign: ForeignLists): Promise<void> {
  const listed = await listedInstruments(db, foreign.instruments)
  for (const category of foreign.instruments) {
    const ofCategory = listed.filter((instrument) => instrument.category === category)
    // An empty result means that no list is stored yet, not that the list is empty.
    if (ofCategory.length > 0) universe.setInstruments(category, ofCategory, true)
  }
  if (!foreign.rpiSymbols) return
  const symbols = await listedRpiSymbols(db)
  if (symbols.length > 0) universe.setRpiSymbols(symbols, true)
}

/** Reads the stored tickers of this recorder's own instruments or, if `isAll`, of all instruments. */
async function readTickers({ db, universe }: SharedListsOptions, foreign: ForeignLists, isAll: boolean): Promise<void> {
  const categories = new Set<string>(foreign.tickers)
  const isWanted = (key: InstrumentKey) =>
    categories.has(key.category) && (isAll || universe.ownership.hasInstrument(key))
  const wanted = universe.planned().instruments.filter(isWanted)
  universe.setTickers(await newestTickerSigns(db, wanted))
}
