import './candlePanel.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { MarketResponses } from '../api/marketContract.js'
import { isTradedCategory } from '../../market/category.js'
import { candleTypes, type Interval, intervalMs } from '../../market/candle.js'
import { useResponse, ask } from './loaded.js'
import { useDrawing } from './chart/drawing.js'
import { type Candle, type ChartGap, chartGapsOf, mergeCandles, slotsOf } from './chart/model.js'
import { decimal, moment } from './format.js'
import { Legend, Panel, Radios } from './panel.js'
import type { ChangeView, View } from './view.js'

const shownIntervals: readonly Interval[] = ['1m', '5m', '15m', '1H', '4H', '1D']
const pageSize = 500
const maxCandles = 5000

interface Props {
  readonly view: View
  readonly change: ChangeView
  readonly live: MarketResponses['event'] | null
  readonly precision: number | null
}

interface Loaded {
  readonly key: string
  readonly candles: readonly Candle[]
  readonly covered: MarketResponses['candles']['covered']
  readonly gaps: MarketResponses['candles']['gaps']
  readonly source: Interval
  readonly hasMore: boolean
}

/** Candles and volume, with what is missing marked and the forming candle pale. */
export function CandlePanel({ view, change, live, precision }: Props) {
  const { category, symbol, type, interval } = view
  const isTraded = category !== null && symbol !== null && isTradedCategory(category)
  const question = isTraded ? { category, symbol, type, interval, limit: pageSize } : null
  const key = JSON.stringify(question)
  const { response, error } = useResponse('/api/candles', question, { everyMs: 60_000 })
  const [loaded, setLoaded] = useState<Loaded | null>(null)
  const [pointed, setPointed] = useState<number | null>(null)
  const isCurrent = loaded?.key === key

  useEffect(() => {
    if (response === null) return
    setLoaded((before) => ({ key, ...joined(before?.key === key ? before : null, response) }))
  }, [key, response])
  useEffect(() => {
    if (live === null || live.candles.length === 0) return
    setLoaded((before) =>
      before?.key === key ? { ...before, candles: mergeCandles(before.candles, live.candles) } : before,
    )
  }, [key, live])

  const isLoading = useRef(false)
  const loadOlder = async () => {
    const oldest = loaded?.candles[0]
    if (question === null || !isCurrent || oldest === undefined || !loaded?.hasMore || isLoading.current) return
    if (loaded.candles.length >= maxCandles) return
    isLoading.current = true
    try {
      const older = await ask('/api/candles', { ...question, before: oldest.openTime })
      setLoaded((before) => (before?.key === key ? { key, ...withOlder(before, older) } : before))
    } catch {
      // The notice above tells when the recorder or its database is away; scrolling again asks again.
    } finally {
      isLoading.current = false
    }
  }

  useEffect(() => {
    // The server rolls up only so much at a time: what a first response left out follows at once.
    if (isCurrent && loaded !== null && loaded.candles.length < pageSize) void loadOlder()
  }, [loaded])

  const lengthMs = intervalMs[interval]
  const candles = isCurrent ? loaded.candles : []
  const chartGaps = isCurrent ? chartGapsOf(candles, lengthMs, loaded, Date.now()) : []
  const { container, chart } = useChart(candles, chartGaps, lengthMs, precision, setPointed, () => void loadOlder())
  const shown = candles.find(({ openTime }) => openTime === pointed) ?? candles.at(-1) ?? null

  return (
    <Panel id="candles" title="Candles" aside={<Choices view={view} change={change} />}>
      <p class="candle-line" aria-live="off">
        {shown === null ? (
          (error ?? (isCurrent || !isTraded ? 'No candles of this kind are stored.' : 'Loading…'))
        ) : (
          <CandleLine candle={shown} />
        )}
      </p>
      <div class="chart" ref={container} role="img" aria-label={describe(symbol, interval, candles, chartGaps)} />
      <div class="panel-foot">
        <Legend keys={{ forming: 'forming', empty: 'no trade', missing: 'not recorded', lost: 'lost' }}>
          {isCurrent && loaded.source !== interval && <em>rolled up from {loaded.source}</em>}
        </Legend>
        <div class="chart-buttons">
          <button type="button" onClick={() => chart.current?.scroll(-0.5)} aria-label="Earlier">
            ←
          </button>
          <button type="button" onClick={() => chart.current?.zoom(0.6)} aria-label="Zoom in">
            +
          </button>
          <button type="button" onClick={() => chart.current?.zoom(1.7)} aria-label="Zoom out">
            −
          </button>
          <button type="button" onClick={() => chart.current?.scroll(0.5)} aria-label="Later">
            →
          </button>
          <button type="button" onClick={() => chart.current?.toNewest()}>
            Newest
          </button>
        </div>
      </div>
      <AsTable candles={candles} chartGaps={chartGaps} />
    </Panel>
  )
}

function useChart(
  candles: readonly Candle[],
  chartGaps: readonly ChartGap[],
  lengthMs: number,
  precision: number | null,
  onPoint: (time: number | null) => void,
  onOldest: () => void,
) {
  const oldest = useRef(onOldest)
  oldest.current = onOldest
  const { container, drawing, isReady } = useDrawing(async () => {
    const { CandleChart } = await import('./chart/candleChart.js')
    return (place) => new CandleChart(place, { onPoint, onOldest: () => oldest.current() })
  })
  useEffect(() => {
    if (isReady && precision !== null) drawing.current?.setPrecision(precision)
  }, [isReady, precision])
  useEffect(() => {
    if (isReady) drawing.current?.show(slotsOf(candles, chartGaps, lengthMs), chartGaps, lengthMs)
  }, [isReady, candles, lengthMs])
  return { container, chart: drawing }
}

function Choices({ view, change }: { view: View; change: ChangeView }) {
  return (
    <div class="choices">
      <label class="hidden" for="candle-type">
        Type of candles
      </label>
      <select
        id="candle-type"
        value={view.type}
        onChange={(event) => change({ type: event.currentTarget.value as View['type'] })}
      >
        {candleTypes.map((type) => (
          <option key={type}>{type}</option>
        ))}
      </select>
      <Radios
        name="Interval"
        values={shownIntervals}
        chosen={view.interval}
        choose={(interval) => change({ interval })}
      />
    </div>
  )
}

function CandleLine({ candle }: { candle: Candle }) {
  const { openTime, open, high, low, close, baseVolume, isClosed } = candle
  return (
    <>
      <time>{moment(openTime).slice(0, 16)}</time> <span>O</span> {decimal(open)} <span>H</span> {decimal(high)}{' '}
      <span>L</span> {decimal(low)} <span>C</span> {decimal(close)} <span>Vol</span>{' '}
      {baseVolume === null ? '–' : decimal(baseVolume)}
      {!isClosed && <em> forming</em>}
    </>
  )
}

function AsTable({ candles, chartGaps }: { candles: readonly Candle[]; chartGaps: readonly ChartGap[] }) {
  return (
    <details class="as-table">
      <summary>The last 20 candles and all gaps as tables</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label="Candles, table">
        <table>
          <thead>
            <tr>
              {['Opens', 'Open', 'High', 'Low', 'Close', 'Volume', 'State'].map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {candles
              .slice(-20)
              .toReversed()
              .map((candle) => (
                <tr key={candle.openTime}>
                  <th scope="row">{moment(candle.openTime)}</th>
                  {[candle.open, candle.high, candle.low, candle.close, candle.baseVolume].map((value, index) => (
                    <td key={index} class="number">
                      {value === null ? '–' : decimal(value)}
                    </td>
                  ))}
                  <td>{candle.isClosed ? 'closed' : 'forming'}</td>
                </tr>
              ))}
          </tbody>
        </table>
        <ul class="gaps">
          {chartGaps.map(({ from, to, kind }) => (
            <li key={`${from} ${kind}`}>
              {kind}: {moment(from)} to {moment(to)}
            </li>
          ))}
        </ul>
      </div>
    </details>
  )
}

function joined(before: Loaded | null, response: MarketResponses['candles']): Omit<Loaded, 'key'> {
  const { covered, gaps, source } = response
  const oldest = response.candles[0]?.openTime ?? Number.POSITIVE_INFINITY
  // Older candles stay. Their gaps were found when the candles were loaded.
  const older = before?.candles.filter(({ openTime }) => openTime < oldest) ?? []
  return {
    candles: [...older, ...response.candles],
    covered: [...(before?.covered.filter(({ from }) => from < oldest) ?? []), ...covered],
    gaps: [...(before?.gaps.filter(({ from }) => from < oldest) ?? []), ...gaps],
    source: before?.source === '1m' ? '1m' : source,
    hasMore: before?.hasMore ?? response.hasOlder,
  }
}

function withOlder(before: Loaded, older: MarketResponses['candles']): Omit<Loaded, 'key'> {
  return {
    candles: mergeCandles(older.candles, before.candles),
    covered: [...older.covered, ...before.covered],
    gaps: [...older.gaps, ...before.gaps],
    // Some may be stored and the others rolled up, which is then said of all.
    source: older.source === '1m' ? '1m' : before.source,
    hasMore: older.hasOlder,
  }
}

function describe(
  symbol: string | null,
  interval: Interval,
  candles: readonly Candle[],
  chartGaps: readonly ChartGap[],
): string {
  const last = candles.at(-1)
  if (last === undefined) return `Chart of ${symbol ?? 'nothing'}: no candles`
  const state = last.isClosed ? 'closed' : 'forming'
  return `Chart of ${candles.length} ${interval} candles of ${symbol ?? ''}; the newest opened ${moment(last.openTime)}, ${state}, at ${last.close}; ${chartGaps.length} gaps.`
}
