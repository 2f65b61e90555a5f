import { dayMs, hourMs, type TimeMs } from '../../market/values.js'
import { runMs } from './marketFills.js'
import { mix, unit } from './hash.js'

/** A tape of another exchange, which the volume and prices of a ticker follow instead of the trades here. */
interface OutsideTape {
  /** Turnover of an ordinary day on the other exchange, in quote coin. */
  readonly turnoverPerDay: number
  /** When the turnover rises: in the hours of a stock exchange abroad, or all day. */
  readonly hours: 'weekdays' | 'always'
}

interface Split {
  readonly at: TimeMs
  /** Number of units that one unit becomes. Prices are divided by it. Below 1, units are merged. */
  readonly factor: number
  /** True if the instrument is listed anew, which moves the launch time of its row. */
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
  /** When fills may happen. `fillsPerHour` is the rate in these hours. */
  readonly fillHours: 'weekdays' | 'always'
  /** Time from which nothing is traded, so that the newest fills stay the same for ever. */
  readonly lastFillBefore: TimeMs | null
  /** `still`: the book has the same levels for ever. `frozen`: it has the same levels and the same `ts`. */
  readonly book: 'live' | 'empty' | 'still' | 'frozen'
  /** `traded`: intervals without a trade are left out. `none`: every response is an empty success. */
  readonly candles: 'every' | 'traded' | 'none'
  /** Splits in order of time. */
  readonly splits: readonly Split[]
  /** Error code of every response to a request for this instrument. Lists still contain the instrument. */
  readonly failsWith: string | null
  /** Fields that are added to the row and to the ticker, or replaced there. Null removes a field. */
  readonly rowFields: Readonly<Record<string, string | null>>
  readonly tickerFields: Readonly<Record<string, string | null>>
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

const calendarStart = Date.UTC(2024, 0, 1)
const calendarEnd = Date.UTC(2031, 0, 1)
const factors = [2, 3, 4, 5, 10, 20, 0.1]

/** Returns a split that takes effect between two runs of fills, because the fills of a run share a price. */
export function splitAt(at: TimeMs, factor: number, relists: boolean): Split {
  return { at: Math.ceil(at / runMs) * runMs, factor, relists }
}

/** Draws the splits of an instrument: about `perYear` a year, each at the beginning of a trading day. */
export function drawnSplits(key: number, perYear: number): readonly Split[] {
  const splits: Split[] = []
  const quarter = 91 * dayMs
  for (let number = 0; calendarStart + number * quarter < calendarEnd; number++) {
    if (unit(mix(key, number, 0x5917)) >= perYear / 4) continue
    const at = calendarStart + number * quarter + (mix(key, number, 0x5918) % 91) * dayMs + dayMs / 3
    splits.push(splitAt(at, factors[mix(key, number, 0x5919) % factors.length] ?? 2, true))
  }
  return splits
}

/** Returns the product of the split factors in (after, until]. It divides a price of `after` as given at `until`. */
export function splitFactor(splits: readonly Split[], after: TimeMs, until: TimeMs): number {
  let factor = 1
  for (const split of splits) if (split.at > after && split.at <= until) factor *= split.factor
  return factor
}

/** Returns the splits that have happened, as a text for keys: values computed before a split are no longer valid. */
export function splitStamp(splits: readonly Split[], until: TimeMs): string {
  if (splits.length === 0) return ''
  return splits
    .filter(({ at }) => at <= until)
    .map(({ at, factor }) => `${at}*${factor}`)
    .join()
}

const opensAtMs = 14.5 * hourMs
const closesAtMs = 21 * hourMs

/**
 * Returns the turnover of the trading day abroad up to `at`, in quote coin. It rises from the opening to the close, and
 * stays over nights and weekends until the next day begins from 0.
 */
export function outsideTurnover(key: number, tape: OutsideTape, hours: OutsideTape['hours'], at: TimeMs): number {
  const [opens, closes] = hours === 'always' ? [0, dayMs] : [opensAtMs, closesAtMs]
  let day = Math.floor((at - opens) / dayMs)
  if (hours === 'weekdays') while (!isWeekday(day)) day--
  const passed = Math.min(1, (at - day * dayMs - opens) / (closes - opens))
  const ofTheDay = tape.turnoverPerDay * (0.6 + 0.8 * unit(mix(key, day, 0x7a9e)))
  return ofTheDay * passed * (1.2 - 0.6 * passed + 0.4 * passed * passed)
}

function isWeekday(day: number): boolean {
  return (day + 3) % 7 < 5
}
