import { useEffect, useState } from 'preact/hooks'
import './instrument.css'
import type { MarketResponses } from '../api/marketContract.js'
import { eventsUrl, useEvent, useResponse } from './loaded.js'
import { CandlePanel } from './candlePanel.js'
import { approximate, compactDecimal, duration, moment, percent, price, spreadDigits } from './format.js'
import { Fills, OrderBook } from './orderBook.js'
import type { ViewProps } from './view.js'
import type { Category } from '../../market/category.js'
import { hourMs } from '../../market/values.js'
import { useDrawing } from './chart/drawing.js'
import type { Line } from './chart/lineChart.js'
import { Legend, Panel, Radios } from './panel.js'

/** Shows one instrument: candles, order book, fills, spread and funding. */
export function Instrument({ view, change }: ViewProps) {
  const { category, symbol } = view
  const isChosen = category !== null && symbol !== null
  /** Moment of the past that the chart shows; null while it shows the newest candle. */
  const [pastAt, setPastAt] = useState<number | null>(view.at)
  const question = { category: category ?? 'SPOT', symbol: symbol ?? '', depth: 15, at: pastAt ?? undefined }
  const { response, error, isPrevious } = useResponse('/api/instrument', isChosen ? question : null, {
    keepsPrevious: true,
  })
  const event = useEvent(eventsUrl(view))
  const live = pastAt === null ? event : null

  if (!isChosen) return null
  const ticker = live === null ? (response?.ticker ?? null) : live.ticker
  const book = live === null ? (response?.book ?? null) : live.book
  const fills = live === null ? (response?.fills ?? null) : live.fills
  const kind = response?.instrument?.kind ?? 'crypto'
  const past = { moment: pastAt, fileName: `${category}-${symbol}` }
  return (
    <section class="instrument" aria-labelledby="instrument-title">
      <div class="instrument-head">
        <h2 id="instrument-title">
          {symbol} <span>{category}</span> {kind !== 'crypto' && <span>{kind.replaceAll('_', ' ')}</span>}
        </h2>
        {ticker !== null && <TickerLine ticker={ticker} isPast={pastAt !== null} />}
        {ticker === null && pastAt !== null && response?.instrument != null && <p class="dim">No ticker of then.</p>}
        {response !== null && response.instrument === null && (
          <p class="warn">The recorder does not know this instrument.</p>
        )}
        {error !== null && response === null && <p class="nothing">{error}</p>}
      </div>
      <div class={`trading ${isPrevious ? 'loading-past' : ''}`}>
        <CandlePanel view={view} change={change} live={event} instrument={response?.instrument} onMoment={setPastAt} />
        <OrderBook book={book} isKnown={response !== null || live !== null} {...past} />
        <Fills fills={fills} {...past} />
      </div>
      {pastAt === null && <HistoryPanel category={category} symbol={symbol} />}
    </section>
  )
}

type Ticker = NonNullable<MarketResponses['instrument']['ticker']>

function TickerLine({ ticker, isPast }: { ticker: Ticker; isPast: boolean }) {
  const { price24hPcnt, ts } = ticker
  const direction = price24hPcnt !== null && approximate(price24hPcnt) < 0 ? 'down' : 'up'
  return (
    <dl class="ticker">
      <Figure name="Last price" value={ticker.lastPrice} shown={price} style="last" />
      <Figure name="24 h" value={price24hPcnt} shown={percent} style={direction} />
      <Figure name="Turnover 24 h" value={ticker.turnover24h} shown={compactDecimal} />
      <Figure name="Traded here" value={ticker.platformTurnover24h} shown={compactDecimal} />
      <Figure name="Mark" value={ticker.markPrice} shown={price} />
      <Figure name="Index" value={ticker.indexPrice} shown={price} />
      <Figure name="Funding" value={ticker.fundingRate} shown={(text) => percent(text, 4)} />
      <Figure name="Open interest" value={ticker.openInterest} shown={compactDecimal} />
      {isPast && <Figure name="As of" value={new Date(ts).toISOString()} shown={() => moment(ts).slice(0, 19)} />}
    </dl>
  )
}

interface FigureProps {
  readonly name: string
  readonly value: string | null
  readonly shown: (text: string) => string
  readonly style?: string
}

function Figure({ name, value, shown, style }: FigureProps) {
  if (value === null) return null
  return (
    <div>
      <dt class={style === 'last' ? 'hidden' : ''}>{name}</dt>
      <dd class={style} title={value}>
        {shown(value)}
      </dd>
    </div>
  )
}

const spans = [1, 6, 24, 168]

type History = MarketResponses['history']
type Field = Exclude<keyof History['points'][number], 'time'>

interface HistoryProps {
  readonly category: Category
  readonly symbol: string
}

/** Shows the spread of the last hours and, for a future, the funding rate. It is not shown beside a chart of the past. */
function HistoryPanel({ category, symbol }: HistoryProps) {
  const [hours, setHours] = useState(1)
  const { response, error } = useResponse('/api/history', { category, symbol, hours }, { everyMs: 15_000 })
  const last = response?.points.at(-1)
  const span = <Radios name="Hours" values={spans} chosen={hours} choose={setHours} shown={spanText} />
  const step = response === null ? '' : `, each ${duration(response.stepMs)}`
  const rows = () => [
    ['time', 'spread_bps', 'max_spread_bps', 'funding_rate'],
    ...(response?.points ?? []).map((point) => [
      new Date(point.time).toISOString(),
      point.spreadBps,
      point.maxSpreadBps,
      point.fundingRate,
    ]),
  ]
  const csv = { name: `${category}-${symbol}-spread`, rows }
  const widest = valuesOf(response, 'maxSpreadBps', 1)
  const mean = valuesOf(response, 'spreadBps', 1)
  return (
    <div class="histories">
      <Panel id="history" title="Spread, basis points" aside={span} csv={csv}>
        <Lines
          history={response}
          hours={hours}
          digits={spreadDigits([...widest.values(), ...mean.values()])}
          label={last === undefined ? 'No tickers in this time' : `Spread ${last.spreadBps ?? 'unknown'} basis points`}
          lines={[
            { colour: 'accent-soft', width: 1, values: widest },
            { colour: 'accent', width: 2, values: mean },
          ]}
        />
        <Legend keys={{ mean: `mean${step}`, widest: 'widest in it' }} />
        {last === undefined && <p class="nothing">{error ?? (response === null ? 'Loading…' : 'No ticker in it.')}</p>}
      </Panel>
      {response?.points.some(({ fundingRate }) => fundingRate !== null) === true && (
        <Panel id="funding" title={`Funding rate, %, last ${spanText(hours)}`}>
          <Lines
            history={response}
            hours={hours}
            digits={4}
            label={`Funding rate ${last?.fundingRate ?? 'not set'}`}
            lines={[{ colour: 'warn', width: 2, isStepped: true, values: valuesOf(response, 'fundingRate', 100) }]}
          />
          <Legend keys={{ funding: 'rate of the newest ticker, for one funding interval' }} />
        </Panel>
      )}
    </div>
  )
}

interface LinesProps {
  readonly history: History | null
  readonly hours: number
  readonly digits: number
  readonly label: string
  readonly lines: readonly Line[]
}

function Lines({ history, hours, digits, label, lines }: LinesProps) {
  const { container, drawing, isReady } = useDrawing(async () => {
    const { LineChart } = await import('./chart/lineChart.js')
    return (place) => new LineChart(place)
  })
  useEffect(() => {
    if (!isReady) return
    const to = Math.max(Date.now(), history?.points.at(-1)?.time ?? 0)
    // Shows nothing until this instrument's response has arrived, instead of the previous instrument's curves.
    drawing.current?.show(lines, { from: to - hours * hourMs, to }, history?.stepMs ?? hourMs, digits)
  }, [isReady, history])
  return <div class="chart small" ref={container} role="img" aria-label={label} />
}

function valuesOf(history: History | null, field: Field, factor: number): ReadonlyMap<number, number> {
  return new Map(
    (history?.points ?? []).flatMap((point) => {
      const value = point[field]
      return value === null ? [] : [[point.time, approximate(value) * factor] as const]
    }),
  )
}

function spanText(hours: number): string {
  return hours < 48 ? `${hours} h` : `${hours / 24} d`
}
