import type { Category, InstrumentKey } from '../market/category.js'
import type { Instrument } from '../market/instrument.js'
import type { RpiSymbol } from '../market/rpiSymbol.js'
import type { Ticker } from '../market/ticker.js'
import type { Decimal } from '../market/values.js'
import type { TradeSign } from './fills/fillSchedule.js'
import { type Candidate, type Select, selectInstruments } from './select.js'

interface Known extends Candidate {
  readonly status: string | null
  turnover24h: Decimal | null
  tradeSign: TradeSign | null
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
        tradeSign: before?.tradeSign ?? null,
        hasRpi: this.#rpi.has(key),
      })
    }
  }

  setTickers(tickers: readonly Ticker[]): void {
    for (const ticker of tickers) {
      const known = this.#known.get(keyText(ticker))
      if (known === undefined) continue
      known.turnover24h = ticker.turnover24h
      const { ts, volume24h, lastPrice } = ticker
      if (volume24h !== null) known.tradeSign = { ts, volume24h, lastPrice }
    }
  }

  setRpiSymbols(symbols: readonly RpiSymbol[]): void {
    this.#rpi.clear()
    for (const symbol of symbols) this.#rpi.add(keyText(symbol))
    for (const [key, known] of this.#known) known.hasRpi = this.#rpi.has(key)
  }

  /** What the newest ticker tells of whether and how much was traded; null where there is none. */
  tradeSign(key: InstrumentKey): TradeSign | null {
    return this.#known.get(keyText(key))?.tradeSign ?? null
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
