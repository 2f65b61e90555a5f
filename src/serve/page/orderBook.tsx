import './orderBook.css'
import type { MarketResponses } from '../api/marketContract.js'
import { approximate, clockTime, decimal, moment as momentText } from './format.js'
import { Head, Legend, Panel } from './panel.js'

type Book = NonNullable<MarketResponses['instrument']['book']>
type Side = Book['bids']

/** As many levels of a side as fit beside the chart. */
const levels = Math.max(8, Math.min(13, Math.floor((innerHeight - 345) / 47)))

interface MomentProps {
  /** Moment of the past that is shown; null for now. */
  readonly moment: number | null
  /** Beginning of the names of files. */
  readonly fileName: string
}

interface BookProps extends MomentProps {
  readonly book: MarketResponses['instrument']['book']
  readonly isKnown: boolean
}

/** Shows a snapshot, asks above bids. The RPI part is marked, because not everybody can take it. */
export function OrderBook({ book, isKnown, moment, fileName }: BookProps) {
  const at = book === null ? '' : moment === null ? clockTime(book.ts) : momentText(book.ts).slice(0, 19)
  return (
    <Panel
      id="book"
      title="Order book"
      aside={<p class="aside">{at}</p>}
      csv={book === null ? undefined : { name: `${fileName}-book`, rows: () => bookRows(book) }}
    >
      {book !== null ? (
        <Levels book={book} />
      ) : (
        <p class="nothing">
          {!isKnown
            ? 'Not known yet.'
            : moment === null
              ? 'No order book of this instrument is stored; the status says which instruments are left out.'
              : `No order book of the ten minutes before ${momentText(moment)} is stored.`}
        </p>
      )}
    </Panel>
  )
}

function bookRows({ ts, bids, asks }: Book) {
  const side = (name: string, { prices, sizes: visible, rpiSizes }: Side) =>
    prices.map((price, i) => [new Date(ts).toISOString(), name, i + 1, price, visible[i] ?? '', rpiSizes?.[i] ?? ''])
  return [['ts', 'side', 'level', 'price', 'size', 'rpi_size'], ...side('bid', bids), ...side('ask', asks)]
}

function Levels({ book }: { book: Book }) {
  const { bids, asks } = book
  const largest = Math.max(...sizes(bids), ...sizes(asks), Number.MIN_VALUE)
  // All sums have the decimals of the sizes, but five significant digits of the largest one at most.
  const decimals = Math.max(0, ...[...bids.sizes, ...asks.sizes].map((size) => size.split('.')[1]?.length ?? 0))
  const highest = Math.max(...sums(bids), ...sums(asks), Number.MIN_VALUE)
  const digits = Math.max(0, Math.min(decimals, 4 - Math.floor(Math.log10(highest))))
  // Snapshots of other requests have no RPI part.
  const hasRpi = bids.rpiSizes !== null || asks.rpiSizes !== null
  return (
    <>
      <table class="book">
        <Head columns={[['Price'], ['Visible'], ...(hasRpi ? [['RPI'] as const] : []), ['Sum']]} />
        <tbody class="asks">{rows(asks, largest, digits, hasRpi).toReversed()}</tbody>
        <tbody class="middle">
          <tr>
            <td colSpan={hasRpi ? 4 : 3}>{spreadText(book)}</td>
          </tr>
        </tbody>
        <tbody class="bids">{rows(bids, largest, digits, hasRpi)}</tbody>
      </table>
      {hasRpi && <Legend keys={{ visible: 'visible to all', rpi: 'RPI, for retail only' }} />}
    </>
  )
}

function rows(side: Side, largest: number, digits: number, hasRpi: boolean) {
  const { prices, sizes: visible, rpiSizes } = side
  const total = sums(side)
  return prices.slice(0, levels).map((price, index) => {
    const size = visible[index] ?? '0'
    const rpi = rpiSizes?.[index] ?? null
    const visibleShare = (approximate(size) / largest) * 100
    const rpiShare = rpi === null ? 0 : (approximate(rpi) / largest) * 100
    return (
      <tr key={price}>
        <td class="price">{decimal(price)}</td>
        <td>{decimal(size)}</td>
        {hasRpi && (
          <td class="rpi">
            {rpi === null || approximate(rpi) === 0 ? <span class="dim">{rpi === null ? '–' : 0}</span> : decimal(rpi)}
          </td>
        )}
        <td class="sum">
          {decimal((total[index] ?? 0).toFixed(digits))}
          <span class="depth" aria-hidden="true">
            <span class="visible" style={{ width: `${visibleShare}%` }} />
            <span class="rpi" style={{ width: `${rpiShare}%` }} />
          </span>
        </td>
      </tr>
    )
  })
}

function sizes({ sizes: visible, rpiSizes }: Side): number[] {
  return visible.slice(0, levels).map((size, index) => approximate(size) + approximate(rpiSizes?.[index] ?? '0'))
}

/** Returns running totals: the size that an order takes if it reaches this level. */
function sums(side: Side): number[] {
  let total = 0
  return sizes(side).map((size) => (total += size))
}

function spreadText({ bids, asks }: Book): string {
  const bid = approximate(bids.prices[0] ?? '')
  const ask = approximate(asks.prices[0] ?? '')
  if (Number.isNaN(bid) || Number.isNaN(ask)) return 'one side is empty'
  const bps = ((ask - bid) / ((ask + bid) / 2)) * 10_000
  return `spread ${bps.toFixed(2)} bps`
}

interface FillsProps extends MomentProps {
  readonly fills: MarketResponses['instrument']['fills'] | null
}

/** Shows stored fills, newest first; `fills` is null until they are loaded. */
export function Fills({ fills, moment, fileName }: FillsProps) {
  const isEmpty = fills === null || fills.length === 0
  const span = moment === null ? 'last hour' : `ten minutes before ${momentText(moment)}`
  const asRow = (fill: NonNullable<FillsProps['fills']>[number]) => [
    new Date(fill.ts).toISOString(),
    fill.execId,
    fill.side,
    fill.price,
    fill.size,
  ]
  return (
    <Panel
      id="fills"
      title={moment === null ? 'Newest fills' : 'Fills until then'}
      csv={
        isEmpty
          ? undefined
          : { name: `${fileName}-fills`, rows: () => [['ts', 'exec_id', 'side', 'price', 'size'], ...fills.map(asRow)] }
      }
    >
      {isEmpty ? (
        <p class="nothing">{fills === null ? 'Not known yet.' : `No fill of the ${span} is stored.`}</p>
      ) : (
        <table class="fills">
          <Head columns={[['Time'], ['Price', 'number'], ['Size', 'number']]} />
          <tbody>
            {fills.map(({ execId, ts, side, price, size }) => (
              <tr key={execId}>
                <td>
                  <time title={side}>{clockTime(ts)}</time>
                </td>
                <td class={`number ${side === 'buy' ? 'up' : 'down'}`} aria-label={`${side} ${price}`}>
                  {decimal(price)}
                </td>
                <td class="number">{decimal(size)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  )
}
