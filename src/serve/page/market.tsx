import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { MarketResponses } from '../api/marketContract.js'
import { approximate, compactDecimal, count, decimal, duration, percent } from './format.js'
import { useResponse } from './loaded.js'
import './market.css'
import { Panel } from './panel.js'
import type { ChangeView } from './view.js'

type Row = MarketResponses['market']['instruments'][number]
type Key = 'symbol' | 'lastPrice' | 'price24hPcnt' | 'turnover' | 'spreadBps' | 'fundingRate' | 'ts'

const columns: readonly (readonly [Key, string])[] = [
  ['symbol', 'Instrument'],
  ['lastPrice', 'Last price'],
  ['price24hPcnt', '24 h'],
  ['turnover', 'Turnover 24 h'],
  ['spreadBps', 'Spread, bps'],
  ['fundingRate', 'Funding'],
  ['ts', 'Age'],
]
const rowPx = 27
/** Rows that are drawn above and below what is seen, so that scrolling shows none that is empty. */
const spareRows = 12

/** All instruments with their newest ticker. Only the rows that are seen are drawn, however many there are. */
export function Market({ change, now }: { change: ChangeView; now: number }) {
  const { response, error } = useResponse('/api/market', {}, { everyMs: 5_000 })
  const [text, setText] = useState('')
  const [category, setCategory] = useState('')
  const [kind, setKind] = useState('')
  const [sort, setSort] = useState<{ readonly key: Key; readonly isUp: boolean }>({ key: 'turnover', isUp: false })
  const all = response?.instruments ?? []
  const shown = useMemo(
    () =>
      sorted(
        all.filter((row) => matches(row, text, category, kind)),
        sort.key,
        sort.isUp,
      ),
    [response, text, category, kind, sort],
  )
  return (
    <Panel id="market" title="Market" aside={<p class="aside">{`${count(shown.length)} of ${count(all.length)}`}</p>}>
      <div class="market-filter">
        <input
          type="search"
          aria-label="Filter instruments"
          placeholder="Filter, such as btc usdt"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <Choice name="All categories" values={all.map((row) => row.category)} chosen={category} choose={setCategory} />
        <Choice name="All kinds" values={all.map((row) => row.kind)} chosen={kind} choose={setKind} />
      </div>
      {error !== null && response === null && <p class="bad">{error}</p>}
      {response !== null && shown.length === 0 && (
        <p class="nothing">{all.length === 0 ? 'No ticker is stored yet.' : 'No instrument matches the filter.'}</p>
      )}
      <Rows
        rows={shown}
        now={now}
        sort={sort}
        onSort={(key) => setSort({ key, isUp: sort.key === key ? !sort.isUp : key === 'symbol' })}
        onOpen={(row) => change({ isMarket: false, category: row.category, symbol: row.symbol })}
      />
    </Panel>
  )
}

interface RowsProps {
  readonly rows: readonly Row[]
  readonly now: number
  readonly sort: { readonly key: Key; readonly isUp: boolean }
  readonly onSort: (key: Key) => void
  readonly onOpen: (row: Row) => void
}

function Rows({ rows, now, sort, onSort, onOpen }: RowsProps) {
  const box = useRef<HTMLDivElement>(null)
  const [seen, setSeen] = useState({ top: 0, height: 800 })
  const look = () => {
    const { scrollTop = 0, clientHeight = 800 } = box.current ?? {}
    setSeen({ top: scrollTop, height: clientHeight })
  }
  useEffect(() => {
    look()
    addEventListener('resize', look)
    return () => removeEventListener('resize', look)
  }, [])
  const first = Math.max(0, Math.min(Math.floor(seen.top / rowPx) - spareRows, rows.length))
  const last = Math.min(rows.length, Math.ceil((seen.top + seen.height) / rowPx) + spareRows)
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
          </tr>
        </thead>
        <tbody>
          <Space rows={first} />
          {rows.slice(first, last).map((row, index) => (
            <tr key={`${row.category} ${row.symbol}`} aria-rowindex={first + index + 2} onClick={() => onOpen(row)}>
              <th scope="row">
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
              <td class="number">{duration(Math.max(0, now - row.ts))}</td>
            </tr>
          ))}
          <Space rows={rows.length - last} />
        </tbody>
      </table>
    </div>
  )
}

/** Stands for the rows that are not drawn. */
function Space({ rows }: { rows: number }) {
  if (rows <= 0) return null
  return (
    <tr aria-hidden="true" class="space">
      <td colSpan={columns.length} style={{ height: `${rows * rowPx}px` }} />
    </tr>
  )
}

function Figure(props: { value: string | null; shown: (value: string) => string; isSigned?: boolean }) {
  const { value, shown, isSigned = false } = props
  if (value === null) return <td class="number none">–</td>
  const sign = isSigned ? (approximate(value) < 0 ? 'down' : 'up') : ''
  return <td class={`number ${sign}`}>{shown(value)}</td>
}

interface ChoiceProps {
  readonly name: string
  readonly values: readonly string[]
  readonly chosen: string
  readonly choose: (value: string) => void
}

function Choice({ name, values, chosen, choose }: ChoiceProps) {
  return (
    <select aria-label={name} value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
      <option value="">{name}</option>
      {[...new Set(values)].toSorted().map((value) => (
        <option key={value} value={value}>
          {value.replaceAll('_', ' ')}
        </option>
      ))}
    </select>
  )
}

/** Every word stands somewhere in what is known of the instrument. */
function matches(row: Row, text: string, category: string, kind: string): boolean {
  if ((category !== '' && row.category !== category) || (kind !== '' && row.kind !== kind)) return false
  const known = `${row.symbol} ${row.quoteCoin ?? ''} ${row.category} ${row.kind}`.toUpperCase()
  return text
    .toUpperCase()
    .split(/\s+/)
    .every((word) => known.includes(word))
}

/** Sorts rows. Rows without a value come last in both directions. */
function sorted(rows: readonly Row[], key: Key, isUp: boolean): readonly Row[] {
  const way = isUp ? 1 : -1
  if (key === 'symbol') return rows.toSorted((a, b) => way * (a.symbol < b.symbol ? -1 : a.symbol > b.symbol ? 1 : 0))
  const figures = new Map(rows.map((row) => [row, figure(row, key)]))
  return rows.toSorted((a, b) => {
    const [x = null, y = null] = [figures.get(a), figures.get(b)]
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1
    return way * (x - y)
  })
}

function figure(row: Row, key: Exclude<Key, 'symbol'>): number | null {
  // An age grows as its time falls.
  if (key === 'ts') return -row.ts
  const value = row[key]
  return value === null ? null : approximate(value)
}
