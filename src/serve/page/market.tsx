import './market.css'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { MarketResponses } from '../api/marketContract.js'
import { approximate, compactDecimal, count, decimal, duration, percent } from './format.js'
import { useResponse } from './loaded.js'
import { Panel, useWindowEvent } from './panel.js'
import type { ChangeView } from './view.js'

type Row = MarketResponses['market']['instruments'][number]
type Key = 'symbol' | 'lastPrice' | 'price24hPcnt' | 'turnover' | 'spreadBps' | 'fundingRate' | 'completeShare' | 'ts'

/** Shows all instruments with their newest ticker, sorted and filtered. */
export function Market({ change, now }: { change: ChangeView; now: number }) {
  const { response, error } = useResponse('/api/market', {}, { everyMs: 5_000 })
  const [text, setText] = useState('')
  const [category, setCategory] = useState('')
  const [kind, setKind] = useState('')
  const [isOnlyFavourites, setOnlyFavourites] = useState(false)
  const [favourites, toggleFavourite] = useFavourites()
  const [sort, setSort] = useState<{ readonly key: Key; readonly isUp: boolean }>({ key: 'turnover', isUp: false })
  const all = response?.instruments ?? []
  const shown = useMemo(
    () =>
      sorted(
        all.filter(
          (row) => matches(row, text, category, kind) && (!isOnlyFavourites || favourites.has(instrumentId(row))),
        ),
        sort.key,
        sort.isUp,
      ),
    [response, text, category, kind, isOnlyFavourites, favourites, sort],
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
        <button aria-pressed={isOnlyFavourites} onClick={() => setOnlyFavourites(!isOnlyFavourites)}>
          ★ Favourites
        </button>
      </div>
      {error !== null && response === null && <p class="bad">{error}</p>}
      {response !== null && shown.length === 0 && (
        <p class="nothing">
          {all.length === 0
            ? 'No ticker of the last hour is stored: the stream of tickers brings them.'
            : favourites.size === 0 && isOnlyFavourites
              ? 'No favourites yet: the star before a symbol makes it one.'
              : 'No instrument matches. Fewer words find more.'}
        </p>
      )}
      <Rows
        rows={shown}
        now={now}
        favourites={favourites}
        onFavourite={toggleFavourite}
        sort={sort}
        onSort={(key) => setSort({ key, isUp: sort.key === key ? !sort.isUp : key === 'symbol' })}
        onOpen={(row) => change({ shows: 'instrument', category: row.category, symbol: row.symbol })}
      />
    </Panel>
  )
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

const favouritesKey = 'market-recorder.favourites'

/** Reads and stores the instruments that the user of this browser has marked. */
function useFavourites(): [ReadonlySet<string>, (row: Row) => void] {
  const [favourites, setFavourites] = useState(
    () => new Set((localStorage.getItem(favouritesKey) ?? '').split(' ').filter((id) => id !== '')),
  )
  const toggle = (row: Row) => {
    const next = new Set(favourites)
    if (!next.delete(instrumentId(row))) next.add(instrumentId(row))
    localStorage.setItem(favouritesKey, [...next].join(' '))
    setFavourites(next)
  }
  return [favourites, toggle]
}

/** Returns true if the instrument's names contain every word of the text. */
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
  // Ages grow as times fall, so the sign is reversed.
  if (key === 'ts') return -row.ts
  const value = row[key]
  return value === null ? null : Number(value)
}

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
function Rows({ rows, now, favourites, onFavourite, sort, onSort, onOpen }: RowsProps) {
  const box = useRef<HTMLDivElement>(null)
  const [seen, setSeen] = useState({ first: 0, count: 30 })
  const look = () => {
    const { scrollTop = 0, clientHeight = 800 } = box.current ?? {}
    // Redraws only after some rows have passed, not with each frame of scrolling.
    const first = Math.floor(scrollTop / rowPx / spareRows) * spareRows
    const count = Math.ceil(clientHeight / rowPx)
    setSeen((before) => (before.first === first && before.count === count ? before : { first, count }))
  }
  useEffect(look, [])
  useWindowEvent('resize', look)
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
                <button onClick={() => onSort(key)}>
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
          {drawn.map((row, index) => {
            const id = instrumentId(row)
            return (
              <tr key={id} aria-rowindex={first + index + 2} onClick={() => onOpen(row)}>
                <th scope="row">
                  <Star row={row} isFavourite={favourites.has(id)} onFavourite={onFavourite} />{' '}
                  <button>{row.symbol}</button> <span class="dim">{row.category}</span>
                </th>
                <Cells row={row} now={now} />
                <td>
                  <Curve prices={curves.get(id) ?? []} />
                </td>
              </tr>
            )
          })}
          <Space rows={rows.length - last} />
        </tbody>
      </table>
    </div>
  )
}

interface StarProps {
  readonly row: Row
  readonly isFavourite: boolean
  readonly onFavourite: (row: Row) => void
}

function Star({ row, isFavourite, onFavourite }: StarProps) {
  return (
    <button
      class="star"
      aria-label={`Favourite ${row.symbol} ${row.category}`}
      aria-pressed={isFavourite}
      onClick={(event) => {
        // A click on the rest of the row opens the instrument.
        event.stopPropagation()
        onFavourite(row)
      }}
    >
      {isFavourite ? '★' : '☆'}
    </button>
  )
}

function Cells({ row, now }: { row: Row; now: number }) {
  const { completeShare } = row
  return (
    <>
      <Figure value={row.lastPrice} shown={decimal} />
      <Figure value={row.price24hPcnt} shown={percent} isSigned />
      <Figure value={row.turnover} shown={(value) => `${compactDecimal(value)} ${row.quoteCoin ?? ''}`} />
      <Figure value={row.spreadBps} shown={(value) => approximate(value).toFixed(2)} />
      <Figure value={row.fundingRate} shown={(value) => percent(value, 4)} />
      <td class={`number ${completeShare === null ? 'none' : completeShare < 0.999 ? 'warn' : ''}`}>
        {completeShare === null ? '–' : `${Math.floor(completeShare * 1000) / 10} %`}
      </td>
      <td class="number">{duration(Math.max(0, now - row.ts))}</td>
    </>
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

function instrumentId({ category, symbol }: Pick<Row, 'category' | 'symbol'>): string {
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
