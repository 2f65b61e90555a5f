import { type CandleType, candleTypes, type Interval, intervals } from '../../market/candle.js'
import { type Category, categories } from '../../market/category.js'
import { type StreamName, streamNames } from '../../market/stream.js'
import { minuteOf, parseTime, type TimeMs } from '../../market/values.js'

/** Views of the page besides that of an instrument. The address names them. */
const tabs = ['status', 'market', 'coverage', 'api'] as const
type Tab = (typeof tabs)[number] | 'instrument'

/** Parts of the view that only one tab has. Its address holds those that are not null. */
const partsOf = { market: ['within', 'kind', 'sort'], coverage: ['stream', 'series', 'day'] } as const

/** State of the page. The address holds all of it, so that a link shows the same to everybody. */
export interface View {
  readonly category: Category | null
  readonly symbol: string | null
  readonly shows: Tab
  readonly type: CandleType
  readonly interval: Interval
  /** Time around which the chart is shown; null while it follows the newest candle. */
  readonly at: TimeMs | null
  /** Filter of the market's instruments. */
  readonly market: string
  /** Their category and their kind; null for all. */
  readonly within: string | null
  readonly kind: string | null
  /** Column by which they are sorted, after a minus if the highest come first; null: by turnover. */
  readonly sort: string | null
  /** Filter of the coverage calendar, and its stream; null for all. */
  readonly coverage: string
  readonly stream: StreamName | null
  /** The series and day whose exact ranges are open: `stream.category.symbol.type.interval` and `2026-11-20`. */
  readonly series: string | null
  readonly day: string | null
}

/** Reads the view from the address. Invalid parts are ignored, because people edit addresses by hand. */
export function readView(search: string): View {
  const parameters = new URLSearchParams(search)
  const text = (name: string) => parameters.get(name)
  const oneOf = <T extends string>(name: string, allowed: readonly string[], usual: T) => {
    const given = text(name)
    return given !== null && allowed.includes(given) ? (given as T) : usual
  }
  const category = oneOf<Category | ''>('category', categories, '')
  const symbol = text('symbol')
  const isWhole = category !== '' && symbol !== null && symbol !== ''
  return {
    category: isWhole ? category : null,
    symbol: isWhole ? symbol : null,
    shows: tabs.find((tab) => parameters.has(tab)) ?? (isWhole ? 'instrument' : 'status'),
    type: oneOf<CandleType>('type', candleTypes, 'market'),
    interval: oneOf<Interval>('interval', intervals, '1m'),
    at: timeOf(text('at') ?? ''),
    market: text('market') ?? '',
    within: text('within'),
    kind: text('kind'),
    sort: text('sort'),
    coverage: text('coverage') ?? '',
    stream: oneOf<StreamName | ''>('stream', streamNames, '') || null,
    series: text('series'),
    day: /^\d{4}-\d{2}-\d{2}$/.test(text('day') ?? '') ? text('day') : null,
  }
}

export function writeView(view: View): string {
  const parameters = new URLSearchParams()
  if (view.category !== null && view.symbol !== null) {
    parameters.set('category', view.category)
    parameters.set('symbol', view.symbol)
  }
  // The view of an instrument is the usual one where an instrument is named, and otherwise that of the status.
  const usual = view.symbol === null ? 'status' : 'instrument'
  const shows = view.shows === 'market' || view.shows === 'coverage' ? view.shows : null
  if (view.shows !== usual) parameters.set(view.shows, shows === null ? '' : view[shows])
  if (view.type !== 'market') parameters.set('type', view.type)
  if (view.interval !== '1m') parameters.set('interval', view.interval)
  if (view.at !== null) parameters.set('at', minuteText(view.at))
  for (const part of shows === null ? [] : partsOf[shows]) {
    const value = view[part]
    if (value !== null) parameters.set(part, value)
  }
  const text = parameters.toString()
  return text === '' ? '/' : `/?${text}`
}

/** Changes parts of the view. `replace` adds no step to the browser's history. */
export type ChangeView = (change: Partial<View>, how?: 'push' | 'replace') => void

/** Properties of a part of the page that shows the view, or changes it. */
export interface ViewProps {
  readonly view: View
  readonly change: ChangeView
}

/** Formats a minute as addresses and date fields do: 2026-11-20T14:03, in UTC. */
export function minuteText(time: TimeMs): string {
  return new Date(time).toISOString().slice(0, 16)
}

/** Reads the minute of a moment, written as the commands take it; null if the text is none. */
export function timeOf(text: string): TimeMs | null {
  const time = parseTime(text.trim())
  return time !== null && time >= 0 ? minuteOf(time) : null
}
