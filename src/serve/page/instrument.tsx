import type { RefObject } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { InstrumentAnswer, InstrumentEvent } from '../api/contract.js'
import { useAnswer } from './api.js'
import { CandlePanel } from './candlePanel.js'
import { approximate, clockTime, compactDecimal, decimal, percent } from './format.js'
import { HistoryPanel } from './historyPanel.js'
import { OrderBook } from './orderBook.js'
import type { ChangeView } from './urlState.js'
import type { View } from './view.js'

export interface InstrumentProps {
  readonly view: View
  readonly change: ChangeView
  readonly version: number
  /** Set to what takes the live events. */
  readonly onEvent: RefObject<((event: InstrumentEvent) => void) | null>
}

/** One instrument: candles, order book, funding and spread. */
export function Instrument({ view, change, version, onEvent }: InstrumentProps) {
  const { category, symbol } = view
  const isChosen = category !== null && symbol !== null
  const { answer, error, url } = useAnswer<InstrumentAnswer>(
    '/api/instrument',
    isChosen ? { category, symbol, depth: 15 } : null,
    version,
  )
  const [event, setEvent] = useState<{ readonly key: string; readonly data: InstrumentEvent } | null>(null)
  const key = `${category} ${symbol} ${view.type} ${view.interval}`
  useEffect(() => {
    onEvent.current = (data) => setEvent({ key, data })
    return () => {
      onEvent.current = null
    }
  }, [key])

  if (!isChosen) return <p class="panel nothing">No instrument is recorded yet; the first appear within seconds.</p>
  const loaded = url?.includes(`symbol=${encodeURIComponent(symbol)}`) === true ? answer : null
  const live = event?.key === key ? event.data : null
  const ticker = live?.ticker ?? loaded?.ticker ?? null
  const book = live?.book ?? loaded?.book ?? null
  const precision = loaded?.instrument?.pricePrecision ?? null
  return (
    <section class="instrument" aria-labelledby="instrument-title">
      <div class="instrument-head">
        <h2 id="instrument-title">
          {symbol} <span>{category}</span>
        </h2>
        {ticker !== null && <TickerLine ticker={ticker} />}
        {loaded !== null && loaded.instrument === null && (
          <p class="warn">The recorder does not know this instrument.</p>
        )}
        {error !== null && loaded === null && <p class="bad">{error}</p>}
      </div>
      <div class="columns">
        <div class="stack">
          <CandlePanel view={view} change={change} version={version} live={live} precision={precision} />
          <HistoryPanel category={category} symbol={symbol} version={version} />
        </div>
        <OrderBook book={book} />
      </div>
    </section>
  )
}

function TickerLine({ ticker }: { ticker: NonNullable<InstrumentAnswer['ticker']> }) {
  const { lastPrice, price24hPcnt, turnover24h, markPrice, indexPrice, fundingRate, openInterest, ts } = ticker
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
      <Figure name="Mark" value={markPrice} shown={decimal} />
      <Figure name="Index" value={indexPrice} shown={(text) => decimal(shortened(text))} />
      <Figure name="Funding" value={fundingRate} shown={(text) => percent(text, 4)} />
      <Figure name="Open interest" value={openInterest} shown={compactDecimal} />
      <div>
        <dt>Ticker of</dt>
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
