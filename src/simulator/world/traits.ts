import type { TimeMs } from '../../market/values.js'

/** A claim about volume that follows something else than what is traded here. */
export interface OutsideTape {
  /** Turnover of an ordinary day there, in the quote coin. */
  readonly turnoverPerDay: number
  /** When it rises: in the hours of a stock exchange abroad, or all day. */
  readonly hours: 'weekdays' | 'always'
}

export interface Split {
  readonly at: TimeMs
  /** One unit becomes so many: prices are divided by it. Below 1 units are merged. */
  readonly factor: number
  /** The instrument is listed anew: the launch time of its row moves. */
  readonly relists: boolean
}

/**
 * Traits that distinguish an instrument from an ordinary market. A test can set each one separately,
 * to create kinds of instruments that have not been seen yet.
 */
export interface Traits {
  /** Source of `volume24h`, `turnover24h` and the ticker's prices. Null means the instrument's own fills. */
  readonly outsideTape: OutsideTape | null
  /**
   * Value of the field `platformTurnover24h`. `counted` is the turnover of the fills of 24 hours. `empty` is `""`.
   * `zero` is `"0"`. A number is an amount per day without fills, added to the counted turnover. Null omits the field.
   */
  readonly platformTurnover: 'counted' | 'empty' | 'zero' | number | null
  /** When fills happen; `fillsPerHour` counts the hours in which they may. */
  readonly fillHours: 'weekdays' | 'always'
  /** Nothing is traded any more from here on: the newest fills stay the same for ever. */
  readonly lastFillBefore: TimeMs | null
  /** `still`: the same levels for ever; `frozen`: the same levels and the same `ts`. */
  readonly book: 'live' | 'empty' | 'still' | 'frozen'
  /** `traded`: intervals without a trade are left out; `none`: always an empty success. */
  readonly candles: 'every' | 'traded' | 'none'
  /** Splits in order of time. */
  readonly splits: readonly Split[]
  /** Error code of every response to a request for this instrument. Lists still contain the instrument. */
  readonly failsWith: string | null
  /** Further or other fields of the row and of the ticker; null takes one out. */
  readonly rowFields: Readonly<Record<string, string | null>>
  readonly tickerFields: Readonly<Record<string, string | null>>
}

export const ordinary: Traits = {
  outsideTape: null,
  platformTurnover: null,
  fillHours: 'always',
  lastFillBefore: null,
  book: 'live',
  candles: 'every',
  splits: [],
  failsWith: null,
  rowFields: {},
  tickerFields: {},
}

export function withFields<Value>(
  row: Readonly<Record<string, Value>>,
  fields: Readonly<Record<string, string | null>>,
): Readonly<Record<string, Value | string>> {
  const changed: Record<string, Value | string> = { ...row }
  for (const [name, value] of Object.entries(fields)) {
    if (value === null) delete changed[name]
    else changed[name] = value
  }
  return changed
}
