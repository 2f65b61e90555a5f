import { type CandleType, candleTypes, type Interval, intervals } from '../../market/candle.js'
import { type Category, categories } from '../../market/category.js'

/** State of the page. All of it is in the address, so that a link shows the same to everybody. */
export interface View {
  readonly category: Category | null
  readonly symbol: string | null
  /** True when the page lists all instruments instead of one. */
  readonly isMarket: boolean
  readonly type: CandleType
  readonly interval: Interval
  /** Filter of the coverage calendar. */
  readonly coverage: string
  /** The series and day whose exact ranges are open: `stream.category.symbol.type.interval` and `2026-11-20`. */
  readonly series: string | null
  readonly day: string | null
}

/** Anything in the address that makes no sense is left out: it may have been typed by hand. */
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
    isMarket: parameters.has('market'),
    type: oneOf<CandleType>('type', candleTypes, 'market'),
    interval: oneOf<Interval>('interval', intervals, '1m'),
    coverage: text('coverage') ?? '',
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
  if (view.isMarket) parameters.set('market', '')
  if (view.type !== 'market') parameters.set('type', view.type)
  if (view.interval !== '1m') parameters.set('interval', view.interval)
  if (view.coverage !== '') parameters.set('coverage', view.coverage)
  if (view.series !== null) parameters.set('series', view.series)
  if (view.day !== null) parameters.set('day', view.day)
  const text = parameters.toString()
  return text === '' ? '/' : `/?${text}`
}

export type ChangeView = (change: Partial<View>, how?: 'push' | 'replace') => void
