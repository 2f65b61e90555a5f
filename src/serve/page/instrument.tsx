import './instrument.css'
import type { MarketResponses } from '../api/marketContract.js'
import { useResponse, useEvent } from './loaded.js'
import { CandlePanel } from './candlePanel.js'
import { approximate, clockTime, compactDecimal, decimal, percent } from './format.js'
import { HistoryPanel } from './historyPanel.js'
import { Fills, OrderBook } from './orderBook.js'
import { eventsUrl } from './live.js'
import type { ChangeView, View } from './view.js'

interface InstrumentProps {
  readonly view: View
  readonly change: ChangeView
}

/** One instrument: candles, order book, funding and spread. */
export function Instrument({ view, change }: InstrumentProps) {
  const { category, symbol } = view
  const isChosen = category !== null && symbol !== null
  const { response, error } = useResponse('/api/instrument', isChosen ? { category, symbol, depth: 15 } : null)
  const live = useEvent(eventsUrl(view))

  if (!isChosen) return <p class="panel nothing">No instrument is recorded yet; the first appear within seconds.</p>
  const ticker = live?.ticker ?? response?.ticker ?? null
  const book = live?.book ?? response?.book ?? null
  const kind = response?.instrument?.kind ?? 'crypto'
  const precision = response?.instrument?.pricePrecision ?? null
  return (
    <section class="instrument" aria-labelledby="instrument-title">
      <div class="instrument-head">
        <h2 id="instrument-title">
          {symbol} <span>{category}</span> {kind !== 'crypto' && <span>{kind.replaceAll('_', ' ')}</span>}
        </h2>
        {ticker !== null && <TickerLine ticker={ticker} />}
        {response !== null && response.instrument === null && (
          <p class="warn">The recorder does not know this instrument.</p>
        )}
        {error !== null && response === null && <p class="nothing">{error}</p>}
      </div>
      <div class="columns">
        <div class="stack">
          <CandlePanel view={view} change={change} live={live} precision={precision} />
          <HistoryPanel category={category} symbol={symbol} />
        </div>
        <div class="stack">
          <OrderBook book={book} isKnown={response !== null || live !== null} />
          <Fills fills={live?.fills ?? response?.fills ?? null} />
        </div>
      </div>
    </section>
  )
}

function TickerLine({ ticker }: { ticker: NonNullable<MarketResponses['instrument']['ticker']> }) {
  const { lastPrice, price24hPcnt, turnover24h, markPrice, indexPrice, fundingRate, openInterest, ts } = ticker
  const { platformTurnover24h } = ticker
  const change = price24hPcnt === null ? 0 : approximate(price24hPcnt)
  return (
    <dl class="ticker">
      {lastPrice !== null && (
        <div class="last">
          <dt class="hidden">Last price</dt>
          <dd>{decimal(lastPrice)}</dd>
        </div>
      )}
      {price24hPcnt !== null && (
        <div>
          <dt>24 h</dt>
          <dd class={change < 0 ? 'down' : 'up'}>{percent(price24hPcnt)}</dd>
        </div>
      )}
      <Figure name="Turnover 24 h" value={turnover24h} shown={compactDecimal} />
      <Figure name="Traded here" value={platformTurnover24h} shown={compactDecimal} />
      <Figure name="Mark" value={markPrice} shown={decimal} />
      <Figure name="Index" value={indexPrice} shown={(text) => decimal(shortened(text))} />
      <Figure name="Funding" value={fundingRate} shown={(text) => percent(text, 4)} />
      <Figure name="Open interest" value={openInterest} shown={compactDecimal} />
      <div>
        <dt>Ticker at</dt>
        <dd>{clockTime(ts)}</dd>
      </div>
    </dl>
  )
}

function Figure({ name, value, shown }: { name: string; value: string | null; shown: (text: string) => string }) {
  if (value === null) return null
  return (
    <div>
      <dt>{name}</dt>
      <dd title={value}>{shown(value)}</dd>
    </div>
  )
}

/** An index price has sixteen decimals; all of them are in the tooltip. */
function shortened(text: string): string {
  const [whole = '', fraction] = text.split('.')
  return fraction === undefined ? whole : `${whole}.${fraction.slice(0, 4)}`
}
