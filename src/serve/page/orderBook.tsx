import './orderBook.css'
import type { MarketResponses } from '../api/marketContract.js'
import { approximate, clockTime, decimal, short } from './format.js'
import { Head, Legend, Panel } from './panel.js'

type Book = NonNullable<MarketResponses['instrument']['book']>
type Side = Book['bids']

const levels = 12

/** Shows the newest snapshot, asks above bids. The RPI part is marked, because not everybody can take it. */
export function OrderBook({ book, isKnown }: { book: MarketResponses['instrument']['book']; isKnown: boolean }) {
  return (
    <Panel
      id="book"
      title="Order book"
      aside={
        <p class="aside">
          {book === null ? '' : `${clockTime(book.ts)} · ${hasRpi(book) ? 'with RPI' : 'no RPI data'}`}
        </p>
      }
    >
      {book !== null ? (
        <Levels book={book} />
      ) : (
        <p class="nothing">
          {isKnown
            ? 'No order book of this instrument is stored; the streams above say which instruments are left out.'
            : 'Not known yet.'}
        </p>
      )}
    </Panel>
  )
}

function Levels({ book }: { book: Book }) {
  const { bids, asks } = book
  const largest = Math.max(...sizes(bids), ...sizes(asks), Number.MIN_VALUE)
  const deepest = Math.max(sums(bids).at(-1) ?? 0, sums(asks).at(-1) ?? 0, Number.MIN_VALUE)
  return (
    <>
      <table class="book">
        <Head columns={[['Price'], ['Visible'], ['RPI'], ['Sum']]} />
        <tbody class="asks">{rows(asks, largest, deepest).toReversed()}</tbody>
        <tbody class="middle">
          <tr>
            <td colSpan={4}>{spreadText(book)}</td>
          </tr>
        </tbody>
        <tbody class="bids">{rows(bids, largest, deepest)}</tbody>
      </table>
      <Legend keys={{ visible: 'visible to all', rpi: 'RPI, for retail only', total: 'sum from the best' }} />
    </>
  )
}

function rows(side: Side, largest: number, deepest: number) {
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
        <td class="rpi">
          {rpi === null ? (
            <span class="dim">–</span>
          ) : approximate(rpi) === 0 ? (
            <span class="dim">0</span>
          ) : (
            decimal(rpi)
          )}
        </td>
        <td class="sum">
          {short(total[index] ?? 0)}
          <span class="depth" aria-hidden="true">
            <span class="visible" style={{ width: `${visibleShare}%` }} />
            <span class="rpi" style={{ width: `${rpiShare}%` }} />
            <span class="total" style={{ width: `${((total[index] ?? 0) / deepest) * 100}%` }} />
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

function hasRpi({ bids }: Book): boolean {
  return bids.rpiSizes !== null
}

function spreadText({ bids, asks }: Book): string {
  const bid = approximate(bids.prices[0] ?? '')
  const ask = approximate(asks.prices[0] ?? '')
  if (Number.isNaN(bid) || Number.isNaN(ask)) return 'one side is empty'
  const bps = ((ask - bid) / ((ask + bid) / 2)) * 10_000
  return `spread ${bps.toFixed(2)} bps`
}

/** Shows the newest stored fills, newest first; `fills` is null until they are loaded. */
export function Fills({ fills }: { fills: MarketResponses['instrument']['fills'] | null }) {
  return (
    <Panel id="fills" title="Newest fills">
      {fills === null || fills.length === 0 ? (
        <p class="nothing">{fills === null ? 'Not known yet.' : 'No fill of the last hour is stored.'}</p>
      ) : (
        <table class="fills">
          <Head columns={[['Time'], ['Price', 'number'], ['Size', 'number']]} />
          <tbody>
            {fills.map(({ execId, ts, side, price, size }) => (
              <tr key={execId}>
                <td>
                  <time>{clockTime(ts)}</time> <span class="dim">{side}</span>
                </td>
                <td class={`number ${side === 'buy' ? 'up' : 'down'}`}>{decimal(price)}</td>
                <td class="number">{decimal(size)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  )
}
