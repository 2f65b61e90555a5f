import { type Category, type InstrumentKey, instrumentText } from '../../market/category.js'
import { type Instrument, type InstrumentKind, kindOf } from '../../market/instrument.js'
import { type TickerSigns, type TradeSign, turnoverHere } from '../../market/ticker.js'
import type { Decimal, TimeMs } from '../../market/values.js'
import { type Ownership, ownsEverything } from './ownership.js'
import type { PlanInstrument, PlanUniverse } from './planUniverse.js'
import { rankInstruments, type Select } from './select.js'

interface Known extends PlanInstrument {
  turnover24h: Decimal | null
  measuredFillsPerSecond: number | null
  tradeSign: { -readonly [Name in keyof TradeSign]: TradeSign[Name] } | null
  quotes: Quotes | null
  /** Responses bring no trades, whatever the ticker says. */
  isSilent: boolean
  hasRpi: boolean
}

interface Quotes extends Pick<TickerSigns, 'bid1Price' | 'bid1Size' | 'ask1Price' | 'ask1Size'> {
  /** Made when it is asked for. */
  text: string | null
}

/** Of an instrument's specification what decides about covering it. */
export interface ListedInstrument {
  readonly symbol: string
  readonly status: string | null
  readonly kind: InstrumentKind
}

/** What the recorder currently knows of the market: which instruments there are and how busy each is. */
export class Universe {
  readonly #known = new Map<Category, Map<string, Known>>()
  readonly #rpi = new Set<string>()
  readonly #measured = new Map<string, number>()
  readonly #tickersAt = new Map<Category, TimeMs>()

  /** What of the market is this recorder's own: changes what is covered of it, not what is known. */
  ownership: Ownership = ownsEverything

  /** Takes the list of a category. Where it is whole, instruments that are not on it are forgotten. */
  setInstruments(category: Category, instruments: readonly Instrument[], isWhole = true): void {
    const listed = instruments.map((instrument) => ({
      symbol: instrument.symbol,
      status: instrument.status,
      kind: kindOf(instrument),
    }))
    this.setListed(category, listed, isWhole)
  }

  /** The same of a list that another recorder has stored. */
  setListed(category: Category, instruments: readonly ListedInstrument[], isWhole = true): void {
    const known = this.#known.get(category) ?? new Map<string, Known>()
    this.#known.set(category, known)
    if (isWhole) {
      const listed = new Set(instruments.map((instrument) => instrument.symbol))
      for (const symbol of known.keys()) if (!listed.has(symbol)) known.delete(symbol)
    }
    for (const { symbol, status, kind } of instruments) {
      const before = known.get(symbol)
      // Whoever holds it goes on seeing what comes.
      if (before !== undefined) Object.assign(before, { status, kind })
      else known.set(symbol, this.#new({ category, symbol, status, kind }))
    }
  }

  /** What is the same as before stays the same object: tickers come so often that anything else would be most of all garbage. */
  setTickers(tickers: readonly TickerSigns[]): void {
    for (const ticker of tickers) {
      this.#tickersAt.set(ticker.category, ticker.receivedAt)
      const known = this.#get(ticker)
      if (known === undefined) continue
      const { ts, volume24h, lastPrice, bid1Price, bid1Size, ask1Price, ask1Size } = ticker
      const turnover24h = turnoverHere(known.kind, ticker)
      if (turnover24h !== known.turnover24h) known.turnover24h = turnover24h
      const { quotes, tradeSign } = known
      const areSame =
        quotes !== null &&
        bid1Price === quotes.bid1Price &&
        bid1Size === quotes.bid1Size &&
        ask1Price === quotes.ask1Price &&
        ask1Size === quotes.ask1Size
      if (!areSame) known.quotes = { bid1Price, bid1Size, ask1Price, ask1Size, text: null }
      if (volume24h === null) continue
      if (tradeSign !== null && volume24h === tradeSign.volume24h && lastPrice === tradeSign.lastPrice)
        tradeSign.ts = ts
      else known.tradeSign = { ts, volume24h, lastPrice }
    }
  }

  setRpiSymbols(symbols: readonly InstrumentKey[], isWhole = true): void {
    if (isWhole) this.#rpi.clear()
    for (const symbol of symbols) this.#rpi.add(instrumentText(symbol))
    for (const known of this.#all()) known.hasRpi = this.#rpi.has(instrumentText(known))
  }

  /** When the newest tickers of a category came; null before the first. */
  tickersAt(category: Category): TimeMs | null {
    return this.#tickersAt.get(category) ?? null
  }

  /** What the newest ticker tells of whether and how much was traded; null where there is none. */
  tradeSign(key: InstrumentKey): TradeSign | null {
    const sign = this.#get(key)?.tradeSign
    return sign ? { ...sign } : null
  }

  /** The same, shown as it changes for as long as the instrument is listed: for whoever asks of all of them with every look. */
  tradeSignOf(key: InstrumentKey): { readonly tradeSign: TradeSign | null } | null {
    return this.#get(key) ?? null
  }

  /** The best bid and ask of the newest ticker, as text: another text claims that the book has changed. */
  quoteSign(key: InstrumentKey): string | null {
    const quotes = this.#get(key)?.quotes
    if (!quotes) return null
    return (quotes.text ??= `${quotes.bid1Price} ${quotes.bid1Size} ${quotes.ask1Price} ${quotes.ask1Size}`)
  }

  /**
   * Takes what responses showed of an instrument's trading, which goes before what its ticker claims: one that is silent ranks
   * as if nothing were traded, until a response shows a trade.
   */
  setSilent(key: InstrumentKey, isSilent: boolean): void {
    const known = this.#get(key)
    if (known !== undefined) known.isSilent = isSilent
  }

  /** Fills a second as earlier runs recorded them lately; null when nothing is known of it. */
  recordedFillsPerSecond(key: InstrumentKey): number | null {
    return this.#get(key)?.measuredFillsPerSecond ?? null
  }

  /** null for an instrument that is not listed. */
  kindOf(key: InstrumentKey): InstrumentKind | null {
    return this.#get(key)?.kind ?? null
  }

  has(key: InstrumentKey): boolean {
    return this.#get(key) !== undefined
  }

  /** Takes fills a second as they were recorded lately: they go before what a ticker makes one expect. */
  setFillRates(rates: readonly (InstrumentKey & { readonly perSecond: number })[]): void {
    for (const rate of rates) {
      const key = instrumentText(rate)
      this.#measured.set(key, rate.perSecond)
      const known = this.#get(rate)
      if (known !== undefined) known.measuredFillsPerSecond = rate.perSecond
    }
  }

  /** The instruments that a selection allows, the busiest first. */
  select(select: Select): readonly InstrumentKey[] {
    return rankInstruments(this.planned().instruments, select).ranked
  }

  selectWithRpi(select: Select): readonly InstrumentKey[] {
    const withRpi = this.planned().instruments.filter((known) => known.hasRpi)
    return rankInstruments(withRpi, select).ranked
  }

  /** The market as the arithmetic of demand takes it. */
  planned(): PlanUniverse {
    const believed = (known: Known): PlanInstrument =>
      known.isSilent ? { ...known, turnover24h: '0', measuredFillsPerSecond: 0 } : known
    return { kind: 'listed', instruments: this.#all().map(believed), ownership: this.ownership }
  }

  #get({ category, symbol }: InstrumentKey): Known | undefined {
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
      quotes: null,
      isSilent: false,
      hasRpi: this.#rpi.has(key),
      ...listed,
    }
  }
}
