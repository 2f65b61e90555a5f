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
 * What sets an instrument apart from an ordinary market. Each can be switched by itself, so that a test can make up a kind
 * of instrument that nobody has met yet.
 */
export interface Traits {
  /** What `volume24h`, `turnover24h` and the prices of the ticker follow; null: the fills. */
  readonly outsideTape: OutsideTape | null
  /**
   * `platformTurnover24h`: what the fills of the 24 hours come to, `""`, `"0"`, or an amount a day that shows in no fill on
   * top of them. Null leaves the field out.
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
  /** In order of time. */
  readonly splits: readonly Split[]
  /** A code that every question about this instrument alone is answered with; the lists go on to name it. */
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
