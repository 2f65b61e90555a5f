import { useEffect, useRef, useState } from 'preact/hooks'
import type { MarketResponses } from '../api/marketContract.js'
import { approximate, compactDecimal, decimal, duration, percent } from './format.js'
import { useResponse } from './loaded.js'

export type Row = MarketResponses['market']['instruments'][number]
export type Key =
  'symbol' | 'lastPrice' | 'price24hPcnt' | 'turnover' | 'spreadBps' | 'fundingRate' | 'completeShare' | 'ts'

const columns: readonly (readonly [Key, string])[] = [
  ['symbol', 'Instrument'],
  ['lastPrice', 'Last price'],
  ['price24hPcnt', '24 h'],
  ['turnover', 'Turnover 24 h'],
  ['spreadBps', 'Spread, bps'],
  ['fundingRate', 'Funding'],
  ['completeShare', 'Complete 24 h'],
  ['ts', 'Age'],
]
const rowPx = 27
/** Number of extra rows drawn above and below the visible ones, so that scrolling shows no empty space. */
const spareRows = 12

interface RowsProps {
  readonly rows: readonly Row[]
  readonly now: number
  readonly favourites: ReadonlySet<string>
  readonly onFavourite: (row: Row) => void
  readonly sort: { readonly key: Key; readonly isUp: boolean }
  readonly onSort: (key: Key) => void
  readonly onOpen: (row: Row) => void
}

/** Shows the table of instruments. It draws only visible rows, because there may be thousands. */
export function Rows({ rows, now, favourites, onFavourite, sort, onSort, onOpen }: RowsProps) {
  const box = useRef<HTMLDivElement>(null)
  const [seen, setSeen] = useState({ first: 0, count: 30 })
  const look = () => {
    const { scrollTop = 0, clientHeight = 800 } = box.current ?? {}
    // Redraws only after some rows have passed, not with each frame of scrolling.
    const first = Math.floor(scrollTop / rowPx / spareRows) * spareRows
    const count = Math.ceil(clientHeight / rowPx)
    setSeen((before) => (before.first === first && before.count === count ? before : { first, count }))
  }
  useEffect(() => {
    look()
    addEventListener('resize', look)
    return () => removeEventListener('resize', look)
  }, [])
  const first = Math.max(0, Math.min(seen.first - spareRows, rows.length))
  const last = Math.min(rows.length, seen.first + seen.count + 2 * spareRows)
  const drawn = rows.slice(first, last)
  const curves = useCurves(drawn)
  return (
    <div ref={box} class="market-rows" tabIndex={0} role="region" aria-label="Market, table" onScroll={look}>
      <table aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {columns.map(([key, name]) => (
              <th
                key={key}
                scope="col"
                class={key === 'symbol' ? '' : 'number'}
                aria-sort={sort.key !== key ? 'none' : sort.isUp ? 'ascending' : 'descending'}
              >
                <button type="button" onClick={() => onSort(key)}>
                  {name}
                  <span aria-hidden="true">{sort.key !== key ? '' : sort.isUp ? ' ↑' : ' ↓'}</span>
                </button>
              </th>
            ))}
            <th scope="col">Price, 24 h</th>
          </tr>
        </thead>
        <tbody>
          <Space rows={first} />
          {drawn.map((row, index) => (
            <tr key={instrumentId(row)} aria-rowindex={first + index + 2} onClick={() => onOpen(row)}>
              <th scope="row">
                <button
                  type="button"
                  class="star"
                  aria-label={`Favourite ${row.symbol} ${row.category}`}
                  aria-pressed={favourites.has(instrumentId(row))}
                  onClick={(event) => {
                    event.stopPropagation()
                    onFavourite(row)
                  }}
                >
                  {favourites.has(instrumentId(row)) ? '★' : '☆'}
                </button>{' '}
                <button type="button" onClick={() => onOpen(row)}>
                  {row.symbol}
                </button>{' '}
                <span class="dim">{row.category}</span>
              </th>
              <Figure value={row.lastPrice} shown={decimal} />
              <Figure value={row.price24hPcnt} shown={percent} isSigned />
              <Figure value={row.turnover} shown={(value) => `${compactDecimal(value)} ${row.quoteCoin ?? ''}`} />
              <Figure value={row.spreadBps} shown={(value) => approximate(value).toFixed(2)} />
              <Figure value={row.fundingRate} shown={(value) => percent(value, 4)} />
              <td class={`number ${row.completeShare === null ? 'none' : row.completeShare < 0.999 ? 'warn' : ''}`}>
                {row.completeShare === null ? '–' : `${Math.floor(row.completeShare * 1000) / 10} %`}
              </td>
              <td class="number">{duration(Math.max(0, now - row.ts))}</td>
              <td>
                <Curve prices={curves.get(instrumentId(row)) ?? []} />
              </td>
            </tr>
          ))}
          <Space rows={rows.length - last} />
        </tbody>
      </table>
    </div>
  )
}

/** Fills the space of rows that are not drawn. */
function Space({ rows }: { rows: number }) {
  if (rows <= 0) return null
  return (
    <tr aria-hidden="true" class="space">
      <td colSpan={columns.length + 1} style={{ height: `${rows * rowPx}px` }} />
    </tr>
  )
}

function Curve({ prices }: { prices: readonly (string | null)[] }) {
  const values = prices.flatMap((price, hour) => (price === null ? [] : [{ hour, value: approximate(price) }]))
  const [first, last] = [values[0], values.at(-1)]
  if (first === undefined || last === undefined || first === last) return null
  const lowest = Math.min(...values.map(({ value }) => value))
  const range = Math.max(...values.map(({ value }) => value)) - lowest || 1
  const points = values.map(({ hour, value }) => `${hour * 4},${(17 - ((value - lowest) / range) * 16).toFixed(1)}`)
  return (
    <svg class={`curve ${last.value < first.value ? 'down' : 'up'}`} viewBox="0 0 96 18" aria-hidden="true">
      <polyline points={points.join(' ')} />
    </svg>
  )
}

function Figure(props: { value: string | null; shown: (value: string) => string; isSigned?: boolean }) {
  const { value, shown, isSigned = false } = props
  if (value === null) return <td class="number none">–</td>
  const sign = isSigned ? (approximate(value) < 0 ? 'down' : 'up') : ''
  return <td class={`number ${sign}`}>{shown(value)}</td>
}

export function instrumentId({ category, symbol }: Pick<Row, 'category' | 'symbol'>): string {
  return `${category}:${symbol}`
}

/** Time for which the rows must rest before their curves are requested. */
const restMs = 150
const curvesAtOnce = 60
const curvesLastMs = 600_000

/** Loads prices of the last 24 hours for the drawn rows, once the list rests. */
function useCurves(rows: readonly Row[]): ReadonlyMap<string, readonly (string | null)[]> {
  const [curves, setCurves] = useState<ReadonlyMap<string, readonly (string | null)[]>>(new Map())
  const [keys, setKeys] = useState('')
  const missing = rows.map(instrumentId).filter((id) => !curves.has(id))
  const wanted = missing.slice(0, curvesAtOnce).join(',')
  const { response } = useResponse('/api/curves', keys === '' ? null : { keys })
  useEffect(() => {
    const timer = setTimeout(() => setKeys(wanted), restMs)
    return () => clearTimeout(timer)
  }, [wanted])
  useEffect(() => {
    if (response === null) return
    const loaded = response.curves.map((curve) => [instrumentId(curve), curve.prices] as const)
    setCurves((before) => new Map([...before, ...loaded]))
  }, [response])
  useEffect(() => {
    const timer = setInterval(() => setCurves(new Map()), curvesLastMs)
    return () => clearInterval(timer)
  }, [])
  return curves
}
