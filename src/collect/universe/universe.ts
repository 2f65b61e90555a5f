import type { ExchangeClient, Page } from '../../exchange/client.js'
import { ExchangeError, failureTraits } from '../../exchange/errors.js'
import {
  categories,
  type Category,
  type InstrumentKey,
  instrumentText,
  tradedCategories,
} from '../../market/category.js'
import { bounds } from '../../market/bounds.js'
import { type Instrument, kindOf } from '../../market/instrument.js'
import { type TickerSigns, type TradeSign, turnoverHere } from '../../market/rows.js'
import { type Decimal, laterOf, type ServiceMs } from '../../market/values.js'
import {
  type Ownership,
  ownsEverything,
  type PlanInstrument,
  type PlanUniverse,
  rankInstruments,
  type Select,
} from './planUniverse.js'

interface Known extends PlanInstrument {
  turnover24h: Decimal | null
  measuredFillsPerSecond: number | null
  /** Time, volume and price of the newest ticker with a volume; null without one. */
  tradeSign: TradeSign | null
  /** Best bid and ask of the newest ticker, as text; null without one. */
  quoteSign: string | null
  /** True when responses bring no trades, whatever the ticker says. */
  isSilent: boolean
  hasRpi: boolean
}

/** Properties of an instrument's specification that decide its coverage. */
type ListedInstrument = Pick<PlanInstrument, 'symbol' | 'status' | 'kind'>

/**
 * Part of all recorded instruments that may be of a category. Each has room for nearly twice what the service lists, or
 * more, and takes none of another's.
 */
const roomOf: Readonly<Record<Category, number>> = {
  SPOT: 0.6,
  MARGIN: 0.1,
  'USDT-FUTURES': 0.2,
  'COIN-FUTURES': 0.05,
  'USDC-FUTURES': 0.05,
}

/** Current state of the market as the recorder knows it: the instruments and how busy each is. */
export class Universe {
  readonly #known = new Map<Category, Map<string, Known>>()
  readonly #rpi = new Set<string>()
  #measured: ReadonlyMap<string, number> = new Map()
  readonly #tickersAt = new Map<Category, ServiceMs>()

  /** Part of the market that this recorder covers. It does not limit the state that is kept. */
  ownership: Ownership = ownsEverything

  /** Returns the rows of a list that have room: those that are known, and the first of the others. */
  withRoom<Row extends Pick<Instrument, 'symbol'>>(category: Category, rows: readonly Row[]): readonly Row[] {
    const known = this.#known.get(category)
    let room = bounds.recordedInstruments * roomOf[category] - (known?.size ?? 0)
    return rows.filter(({ symbol }) => known?.has(symbol) === true || room-- > 0)
  }

  /**
   * Takes the list of a category from the service, or one that another recorder has stored. If the list is whole,
   * instruments that are not on it are forgotten.
   */
  setInstruments(category: Category, instruments: readonly (Instrument | ListedInstrument)[], isWhole: boolean): void {
    const known = this.#known.get(category) ?? new Map<string, Known>()
    this.#known.set(category, known)
    if (isWhole) {
      const listed = new Set(instruments.map((instrument) => instrument.symbol))
      for (const symbol of known.keys()) if (!listed.has(symbol)) known.delete(symbol)
    }
    for (const instrument of this.withRoom(category, instruments)) {
      const { symbol, status } = instrument
      const kind = 'kind' in instrument ? instrument.kind : kindOf(instrument)
      const before = known.get(symbol)
      if (before !== undefined) Object.assign(before, { status, kind })
      else known.set(symbol, this.#new({ category, symbol, status, kind }))
    }
  }

  setTickers(tickers: readonly TickerSigns[]): void {
    // The newest of these alone counts: the service's clock may have been set back since the ones before.
    const newest = new Map<Category, ServiceMs>()
    for (const { category, ts } of tickers) newest.set(category, laterOf(ts, newest.get(category) ?? ts))
    for (const [category, ts] of newest) this.#tickersAt.set(category, ts)
    for (const ticker of tickers) {
      const { ts } = ticker
      const known = this.#find(ticker)
      if (known === undefined) continue
      const { volume24h, lastPrice, bid1Price, bid1Size, ask1Price, ask1Size } = ticker
      known.turnover24h = turnoverHere(known.kind, ticker)
      known.quoteSign = `${bid1Price} ${bid1Size} ${ask1Price} ${ask1Size}`
      if (volume24h !== null) known.tradeSign = { ts, volume24h, lastPrice }
    }
  }

  setRpiSymbols(symbols: readonly InstrumentKey[], isWhole: boolean): void {
    if (isWhole) this.#rpi.clear()
    for (const symbol of symbols) this.#rpi.add(instrumentText(symbol))
    for (const known of this.#all()) known.hasRpi = this.#rpi.has(instrumentText(known))
  }

  /** Returns the state of an instrument; undefined if it is not listed. */
  find(key: InstrumentKey): PlanInstrument | undefined {
    return this.#find(key)
  }

  /** Time of the newest ticker of a category's last list; null before the first. */
  tickersAt(category: Category): ServiceMs | null {
    return this.#tickersAt.get(category) ?? null
  }

  /** Time, volume and price of the newest ticker with a volume; null without one. */
  tradeSign(key: InstrumentKey): TradeSign | null {
    return this.#find(key)?.tradeSign ?? null
  }

  /** Best bid and ask of the newest ticker, as text. A different text claims that the book has changed. */
  quoteSign(key: InstrumentKey): string | null {
    return this.#find(key)?.quoteSign ?? null
  }

  /**
   * Takes the evidence of responses, which overrides the ticker. A silent instrument ranks as if nothing were traded,
   * until a response shows a trade.
   */
  setSilent(key: InstrumentKey, isSilent: boolean): void {
    const known = this.#find(key)
    if (known !== undefined) known.isSilent = isSilent
  }

  /** Takes all fills per second as recorded lately. They override the estimates from tickers. */
  setFillRates(rates: readonly (InstrumentKey & { readonly perSecond: number })[]): void {
    this.#measured = new Map(rates.map((rate) => [instrumentText(rate), rate.perSecond]))
    for (const known of this.#all()) known.measuredFillsPerSecond = this.#measured.get(instrumentText(known)) ?? null
  }

  /** The instruments that a selection allows and `covers` accepts, the busiest first. */
  select(select: Select, covers: (instrument: PlanInstrument) => boolean = () => true): readonly InstrumentKey[] {
    const { kind, instruments } = this.planned()
    return rankInstruments({ kind, instruments: instruments.filter(covers) }, select).ranked
  }

  /** The market as used to compute demand. Silent instruments have no turnover and no fills. */
  planned(): PlanUniverse {
    const believed = (known: Known): PlanInstrument =>
      known.isSilent ? { ...known, turnover24h: '0', measuredFillsPerSecond: 0 } : known
    return { kind: 'listed', instruments: this.#all().map(believed), ownership: this.ownership }
  }

  #find({ category, symbol }: InstrumentKey): Known | undefined {
    return this.#known.get(category)?.get(symbol)
  }

  #all(): Known[] {
    return [...this.#known.values()].flatMap((ofCategory) => [...ofCategory.values()])
  }

  #new(listed: ListedInstrument & InstrumentKey): Known {
    const key = instrumentText(listed)
    return {
      measuredFillsPerSecond: this.#measured.get(key) ?? null,
      turnover24h: null,
      tradeSign: null,
      quoteSign: null,
      isSilent: false,
      hasRpi: this.#rpi.has(key),
      ...listed,
    }
  }
}

/**
 * Asks the service for its instruments, their turnover and RPI membership, with ten requests. A category that the
 * service no longer knows is left out and passed to `onMissing`. Rejects with an ExchangeError for every other failure,
 * and when no category is left.
 */
export async function readUniverse(
  client: ExchangeClient,
  signal: AbortSignal,
  onMissing: (error: ExchangeError) => void,
): Promise<Universe> {
  const universe = new Universe()
  const missing: ExchangeError[] = []
  const rowsOf = async <Row>(page: Promise<Page<Row>>): Promise<readonly Row[]> => {
    try {
      return (await page).rows
    } catch (error) {
      if (!(error instanceof ExchangeError) || failureTraits[error.kind].about !== 'category') throw error
      missing.push(error)
      return []
    }
  }
  const instruments = categories.map(async (category) => {
    universe.setInstruments(category, await rowsOf(client.instruments({ category }, { signal })), true)
  })
  const tickers = tradedCategories.map((category) => rowsOf(client.tickers({ category }, { signal })))
  const [pages, rpiSymbols] = await Promise.all([
    Promise.all(tickers),
    client.rpiSymbols({ signal }),
    Promise.all(instruments),
  ])
  universe.setTickers(pages.flat())
  universe.setRpiSymbols(rpiSymbols.rows, true)
  const [first] = missing
  if (first !== undefined && universe.planned().instruments.length === 0) throw first
  for (const error of missing) onMissing(error)
  return universe
}
