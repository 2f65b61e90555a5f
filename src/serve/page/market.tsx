import './market.css'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { MarketResponses } from '../api/marketContract.js'
import { approximate, compactDecimal, count, duration, percent, price } from './format.js'
import { useResponse } from './loaded.js'
import { Choice, Panel, useWindowEvent } from './panel.js'
import type { ViewProps } from './view.js'

type Row = MarketResponses['market']['instruments'][number]
type Key = 'symbol' | 'lastPrice' | 'price24hPcnt' | 'turnover' | 'spreadBps' | 'fundingRate' | 'completeShare' | 'ts'

/** Shows all instruments with their newest ticker, sorted and filtered. */
export function Market({ view, change, now }: ViewProps & { now: number }) {
  const { market: text, within, kind } = view
  const { response, error } = useResponse('/api/market', {}, { everyMs: 5_000 })
  const sort = readSort(view.sort ?? '-turnover')
  const all = response?.instruments ?? []
  const shown = useMemo(() => {
    const matching = all.filter((row) => matches(row, view))
    return sorted(matching, sort.key, sort.isUp)
  }, [response, text, within, kind, view.sort])
  const open = ({ category, symbol }: Row) => change({ shows: 'instrument', category, symbol, at: null })
  const narrow = (part: Partial<ViewProps['view']>) => change(part, 'replace')
  return (
    <Panel
      id="market"
      title="Market"
      aside={<p class="aside">{`${count(shown.length)} of ${count(all.length)}`}</p>}
      csv={{ name: 'market', rows: () => [csvFields, ...shown.map((row) => csvFields.map((field) => row[field]))] }}
    >
      <div class="market-filter">
        <input
          type="search"
          aria-label="Filter instruments"
          placeholder="Filter, such as btc usdt"
          value={text}
          onInput={(event) => change({ market: event.currentTarget.value }, 'replace')}
          onKeyDown={(event) => event.key === 'Enter' && shown[0] !== undefined && open(shown[0])}
        />
        <Choice
          name="All categories"
          values={all.map((row) => row.category)}
          chosen={within}
          choose={(to) => narrow({ within: to })}
        />
        <Choice
          name="All kinds"
          values={all.map((row) => row.kind)}
          chosen={kind}
          choose={(to) => narrow({ kind: to })}
        />
      </div>
      {error !== null && response === null && <p class="bad">{error}</p>}
      {response !== null && shown.length === 0 && (
        <p class="nothing">
          {all.length === 0
            ? 'No ticker of the last hour is stored: the stream of tickers brings them.'
            : 'No instrument matches. Fewer words find more.'}
        </p>
      )}
      <Rows
        rows={shown}
        now={now}
        sort={sort}
        onSort={(key) => {
          const isUp = sort.key === key ? !sort.isUp : key === 'symbol'
          change({ sort: `${isUp ? '' : '-'}${key}` }, 'replace')
        }}
        onOpen={open}
      />
    </Panel>
  )
}

/** Reads the sort of the address. An unknown column is ignored, because people edit addresses by hand. */
function readSort(text: string) {
  const [key]: readonly [Key, ...unknown[]] = columns.find(([name]) => name === text.replace('-', '')) ?? ['turnover']
  return { key, isUp: !text.startsWith('-') }
}

/** Returns true if an instrument is of the chosen category and kind, and its names contain every word. */
function matches(row: Row, { market: text, within, kind }: ViewProps['view']): boolean {
  if ((within ?? row.category) !== row.category || (kind ?? row.kind) !== row.kind) return false
  const known = `${row.symbol} ${row.quoteCoin ?? ''} ${row.category} ${row.kind}`.toUpperCase()
  return text
    .toUpperCase()
    .split(/\s+/)
    .every((word) => known.includes(word))
}

/** Sorts rows. Rows without a value come last in both directions. Turnover is compared within one coin. */
function sorted(rows: readonly Row[], key: Key, isUp: boolean): readonly Row[] {
  const way = isUp ? 1 : -1
  if (key === 'symbol') return rows.toSorted((a, b) => way * (a.symbol < b.symbol ? -1 : a.symbol > b.symbol ? 1 : 0))
  const figures = new Map(rows.map((row) => [row, figure(row, key)]))
  return rows.toSorted((a, b) => {
    const [x = null, y = null] = [figures.get(a), figures.get(b)]
    if (key === 'turnover' && isDollar(a) !== isDollar(b)) return isDollar(a) ? -1 : 1
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1
    return way * (x - y)
  })
}

function isDollar({ quoteCoin }: Row): boolean {
  return quoteCoin === 'USDT' || quoteCoin === 'USDC' || quoteCoin === 'USD'
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
const csvFields = [
  ...(['category', 'symbol', 'quoteCoin', 'kind', 'ts', 'lastPrice', 'price24hPcnt', 'turnover'] as const),
  ...(['spreadBps', 'fundingRate', 'completeShare'] as const),
]
/** On a phone, a row has two lines. */
const heightOfRow = () => (innerWidth > 620 ? 27 : 46)
/** Number of extra rows drawn above and below the visible ones, so that scrolling shows no empty space. */
const spareRows = 12

interface RowsProps {
  readonly rows: readonly Row[]
  readonly now: number
  readonly sort: ReturnType<typeof readSort>
  readonly onSort: (key: Key) => void
  readonly onOpen: (row: Row) => void
}

/** Shows the table of instruments. It draws only visible rows, because there may be thousands. */
function Rows({ rows, now, sort, onSort, onOpen }: RowsProps) {
  const box = useRef<HTMLDivElement>(null)
  const rowPx = heightOfRow()
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
          <Space px={first * rowPx} />
          {drawn.map((row, index) => {
            const id = instrumentId(row)
            return (
              <tr key={id} aria-rowindex={first + index + 2} onClick={() => onOpen(row)}>
                <th scope="row">
                  <button>{row.symbol}</button> <span class="dim">{row.category}</span>
                </th>
                <Cells row={row} now={now} />
                <td>
                  <Curve prices={curves.get(id) ?? []} change={row.price24hPcnt} />
                </td>
              </tr>
            )
          })}
          <Space px={(rows.length - last) * rowPx} />
        </tbody>
      </table>
    </div>
  )
}

function Cells({ row, now }: { row: Row; now: number }) {
  const { completeShare } = row
  return (
    <>
      <Figure value={row.lastPrice} shown={price} />
      <Figure value={row.price24hPcnt} shown={percent} isSigned />
      <Figure value={row.turnover} shown={(value) => `${compactDecimal(value)} ${row.quoteCoin ?? ''}`} />
      <Figure value={row.spreadBps} shown={(value) => approximate(value).toFixed(2)} />
      <Figure value={row.fundingRate} shown={(value) => percent(value, 4)} />
      <td
        class={`number ${completeShare === null ? 'none' : completeShare < 0.999 ? 'dim' : ''}`}
        title="Share of the last 24 hours with complete 1m candles. It grows with the recording and with what is fetched of the past."
      >
        {completeShare === null ? '–' : `${Math.floor(completeShare * 1000) / 10} %`}
      </td>
      <td class="number">{duration(Math.max(0, now - row.ts))}</td>
    </>
  )
}

/** Fills the space of rows that are not drawn. */
function Space({ px }: { px: number }) {
  if (px <= 0) return null
  return (
    <tr aria-hidden="true" class="space">
      <td style={{ height: `${px}px` }} />
    </tr>
  )
}

/** Draws the price in the colour of the change beside it, also where a part of the day is not known. */
function Curve({ prices, change }: { prices: readonly (string | null)[]; change: string | null }) {
  const values = prices.flatMap((price, at) => (price === null ? [] : [{ at, value: approximate(price) }]))
  if (values.length < 2) return null
  const lowest = Math.min(...values.map(({ value }) => value))
  const range = Math.max(...values.map(({ value }) => value)) - lowest || 1
  const points = values.map(({ at, value }) => `${at},${(17 - ((value - lowest) / range) * 16).toFixed(1)}`)
  return (
    <svg class={`curve ${approximate(change ?? '0') < 0 ? 'down' : 'up'}`} viewBox="0 0 96 18" aria-hidden="true">
      <polyline points={points.join(' ')} />
    </svg>
  )
}

function Figure(props: { value: string | null; shown: (value: string) => string; isSigned?: boolean }) {
  const { value, shown, isSigned = false } = props
  if (value === null) return <td class="number none">–</td>
  const sign = isSigned ? (approximate(value) < 0 ? 'down' : 'up') : ''
  return (
    <td class={`number ${sign}`} title={value}>
      {shown(value)}
    </td>
  )
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
