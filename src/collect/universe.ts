import type { Category, InstrumentKey } from '../market/category.js'
import type { Instrument } from '../market/instrument.js'
import type { RpiSymbol } from '../market/rpiSymbol.js'
import type { Ticker } from '../market/ticker.js'
import type { Decimal } from '../market/values.js'
import { type Candidate, type Select, selectInstruments } from './select.js'

interface Known extends Candidate {
  readonly status: string | null
  turnover24h: Decimal | null
  volume24h: Decimal | null
  lastPrice: Decimal | null
  hasRpi: boolean
}

/** What the recorder currently knows of the market: which instruments there are and how busy each is. */
export class Universe {
  readonly #known = new Map<string, Known>()
  readonly #rpi = new Set<string>()

  /** Takes the complete list of a category: instruments that are no longer on it are forgotten. */
  setInstruments(category: Category, instruments: readonly Instrument[]): void {
    const listed = new Set(instruments.map((instrument) => instrument.symbol))
    for (const known of this.#known.values()) {
      if (known.category === category && !listed.has(known.symbol)) this.#known.delete(keyText(known))
    }
    for (const { symbol, status } of instruments) {
      const key = keyText({ category, symbol })
      const before = this.#known.get(key)
      this.#known.set(key, {
        category,
        symbol,
        status,
        turnover24h: before?.turnover24h ?? null,
        volume24h: before?.volume24h ?? null,
        lastPrice: before?.lastPrice ?? null,
        hasRpi: this.#rpi.has(key),
      })
    }
  }

  setTickers(tickers: readonly Ticker[]): void {
    for (const ticker of tickers) {
      const known = this.#known.get(keyText(ticker))
      if (known === undefined) continue
      known.turnover24h = ticker.turnover24h
      known.volume24h = ticker.volume24h
      known.lastPrice = ticker.lastPrice
    }
  }

  setRpiSymbols(symbols: readonly RpiSymbol[]): void {
    this.#rpi.clear()
    for (const symbol of symbols) this.#rpi.add(keyText(symbol))
    for (const [key, known] of this.#known) known.hasRpi = this.#rpi.has(key)
  }

  /** Changes whenever the instrument traded; null where no ticker tells. */
  tradeMark(key: InstrumentKey): string | null {
    const known = this.#known.get(keyText(key))
    return known?.volume24h == null ? null : `${known.volume24h} ${known.lastPrice ?? ''}`
  }

  has(key: InstrumentKey): boolean {
    return this.#known.has(keyText(key))
  }

  select(select: Select): InstrumentKey[] {
    return selectInstruments(this.#known.values(), select)
  }

  selectWithRpi(select: Select): InstrumentKey[] {
    return selectInstruments(
      [...this.#known.values()].filter((known) => known.hasRpi),
      select,
    )
  }
}

function keyText(key: InstrumentKey): string {
  return `${key.category} ${key.symbol}`
}
