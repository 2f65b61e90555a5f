import './candlePanel.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { MarketResponses } from '../api/marketContract.js'
import { isTradedCategory } from '../../market/category.js'
import { candleTypes, type Interval, intervalMs } from '../../market/candle.js'
import type { TimeRange } from '../../market/timeRange.js'
import { minuteOf } from '../../market/values.js'
import { useCandles } from './candles.js'
import type { CandleChart, ChartEvents } from './chart/candleChart.js'
import { useDrawing } from './chart/drawing.js'
import { type Candle, type ChartGap, chartGapsOf, slotsOf } from './chart/model.js'
import { decimal, moment } from './format.js'
import { Head, Legend, Panel, Radios } from './panel.js'
import { minuteText, timeOf, type View, type ViewProps } from './view.js'

const shownIntervals: readonly Interval[] = ['1m', '5m', '15m', '1H', '4H', '1D']

interface Props extends ViewProps {
  readonly live: MarketResponses['event'] | null
  readonly precision: number | null
}

/** Shows candles and volume. Missing candles are marked, and the forming candle is pale. */
export function CandlePanel({ view, change, live, precision }: Props) {
  const { symbol, interval, at } = view
  const { isTraded, error, current, candles, loadOlder, loadNewer, reload } = useCandles(view, live)
  const [pointed, setPointed] = useState<number | null>(null)
  const lengthMs = intervalMs[interval]
  const chartGaps = current === null ? [] : chartGapsOf(candles, lengthMs, current, Date.now())
  /** Range that stays in view when the interval changes; null without a change. */
  const kept = useRef<TimeRange | null>(null)
  const focus = kept.current ?? (at === null ? null : { from: at - 60 * lengthMs, to: at + 60 * lengthMs })
  const changeInterval = (next: Interval, span: TimeRange) => {
    const isAtNewest = chart.current?.isAtNewest() !== false && current?.hasNewest !== false
    kept.current = span
    const middle = minuteOf((span.from + span.to) / 2)
    change({ interval: next, at: isAtNewest ? null : middle }, 'replace')
  }
  const { container, chart } = useChart(
    { candles, chartGaps, lengthMs, precision, focus },
    {
      onPoint: setPointed,
      onOldest: () => void loadOlder(),
      onNewest: () => void loadNewer(),
      onTooMany: (span) => {
        const longer = shownIntervals[shownIntervals.indexOf(interval) + 1]
        if (current !== null && longer !== undefined) changeInterval(longer, span)
        else void loadOlder()
      },
    },
  )
  useEffect(() => {
    if (candles.length > 0) kept.current = null
  }, [candles])
  const toNewest = () => {
    if (at !== null) return change({ at: null })
    if (current?.hasNewest === true) return chart.current?.toNewest()
    chart.current?.reset()
    reload()
  }
  const isElsewhere = at !== null && !candles.some(({ openTime }) => Math.abs(openTime - at) <= 60 * lengthMs)
  const newest = isElsewhere ? null : (candles.at(-1) ?? null)
  const shown = candles.find(({ openTime }) => openTime === pointed) ?? newest

  return (
    <Panel
      id="candles"
      title="Candles"
      aside={
        <Choices
          view={view}
          change={change}
          choose={(next) => changeInterval(next, chart.current?.span() ?? { from: 0, to: 0 })}
        />
      }
    >
      <p class="candle-line" aria-live="off">
        {shown === null ? (
          (error ?? (current !== null || !isTraded ? nothingText(view) : 'Loading…'))
        ) : (
          <CandleLine candle={shown} />
        )}
      </p>
      <div class="chart" ref={container} role="img" aria-label={describe(symbol, interval, candles, chartGaps)} />
      <div class="panel-foot">
        <Legend keys={{ forming: 'forming', empty: 'no trade', missing: 'not recorded', lost: 'lost' }}>
          {current !== null && current.source !== interval && <em>rolled up from {current.source}</em>}
        </Legend>
        <div class="chart-buttons">
          <label>
            Go to{' '}
            <input
              type="datetime-local"
              value={at === null ? '' : minuteText(at)}
              onChange={(event) => change({ at: timeOf(event.currentTarget.value) })}
            />
          </label>
          {moves.map(([label, sign, move]) => (
            <button key={label} onClick={() => chart.current && move(chart.current)} aria-label={label}>
              {sign}
            </button>
          ))}
          <button onClick={toNewest}>Newest</button>
        </div>
      </div>
      <AsTable candles={candles} chartGaps={chartGaps} />
    </Panel>
  )
}

/** Buttons that move the chart, with their sign. */
const moves: readonly (readonly [label: string, sign: string, move: (chart: CandleChart) => void])[] = [
  ['Earlier', '←', (chart) => chart.scroll(-0.5)],
  ['Zoom in', '+', (chart) => chart.zoom(0.6)],
  ['Zoom out', '−', (chart) => chart.zoom(1.7)],
  ['Later', '→', (chart) => chart.scroll(0.5)],
]

interface Shown {
  readonly candles: readonly Candle[]
  readonly chartGaps: readonly ChartGap[]
  readonly lengthMs: number
  readonly precision: number | null
  readonly focus: TimeRange | null
}

function useChart({ candles, chartGaps, lengthMs, precision, focus }: Shown, given: ChartEvents) {
  const events = useRef(given)
  events.current = given
  const { container, drawing, isReady } = useDrawing(async () => {
    const { CandleChart } = await import('./chart/candleChart.js')
    return (place) => new CandleChart(place, () => events.current)
  })
  useEffect(() => {
    if (isReady && precision !== null) drawing.current?.setPrecision(precision)
  }, [isReady, precision])
  useEffect(() => {
    if (isReady) drawing.current?.show(slotsOf(candles, chartGaps, lengthMs), chartGaps, lengthMs, focus)
  }, [isReady, candles, lengthMs])
  return { container, chart: drawing }
}

function Choices({ view, change, choose }: ViewProps & { choose: (interval: Interval) => void }) {
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
      <Radios name="Interval" values={shownIntervals} chosen={view.interval} choose={choose} />
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

const columns = [
  ['Opens'],
  ...['Open', 'High', 'Low', 'Close', 'Volume'].map((name) => [name, 'number'] as const),
  ['State'],
] as const

function AsTable({ candles, chartGaps }: { candles: readonly Candle[]; chartGaps: readonly ChartGap[] }) {
  return (
    <details class="as-table">
      <summary>The last 20 candles and all gaps as tables</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label="Candles, table">
        <table>
          <Head columns={columns} />
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
        <ul>
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

/** Explains why there are no candles, and how to get them. */
function nothingText({ category, symbol, type, interval, at }: View): string {
  if (category === null || !isTradedCategory(category)) return 'This category has no candles.'
  const ofType = type === 'market' ? '' : ` --type ${type}`
  const command = `market-recorder backfill --category ${category} --symbol ${symbol ?? ''} --interval ${interval}${ofType}`
  const [around, from] = at === null ? ['', '2026-01-01'] : [` around ${minuteText(at)}`, minuteText(at).slice(0, 10)]
  return `No candles of this kind are stored${around}. To fetch them: ${command} --from ${from}`
}

function describe(
  symbol: string | null,
  interval: Interval,
  candles: readonly Candle[],
  chartGaps: readonly ChartGap[],
): string {
  const [first, last] = [candles[0], candles.at(-1)]
  if (first === undefined || last === undefined) return `Chart of ${symbol ?? 'nothing'}: no candles`
  const state = last.isClosed ? 'closed' : 'forming'
  return `Chart of ${candles.length} ${interval} candles of ${symbol ?? ''} from ${moment(first.openTime)}; the newest opened ${moment(last.openTime)}, ${state}, at ${last.close}; ${chartGaps.length} gaps.`
}
