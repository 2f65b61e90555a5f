import './candlePanel.css'
import type { RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { MarketResponses } from '../api/marketContract.js'
import { isTradedCategory } from '../../market/category.js'
import { candleTypes, type Interval, intervalMs } from '../../market/candle.js'
import type { TimeRange } from '../../market/timeRange.js'
import { dayMs } from '../../market/values.js'
import { useCandles } from './candles.js'
import type { CandleChart, ChartContents, ChartEvents, Seen } from './chart/candleChart.js'
import { useDrawing } from './chart/drawing.js'
import { type Candle, type ChartGap, chartGapsOf, slotsOf } from './chart/model.js'
import { decimal, moment } from './format.js'
import { Command, Legend, Panel, Radios } from './panel.js'
import { minuteText, timeOf, type View, type ViewProps } from './view.js'

const shownIntervals: readonly Interval[] = ['1m', '5m', '15m', '1H', '4H', '1D']

interface Props extends ViewProps {
  readonly live: MarketResponses['event'] | null
  /** Null if the recorder does not know it; undefined before the response. */
  readonly instrument: MarketResponses['instrument']['instrument'] | undefined
  /** Called with the moment of the past that was asked for or scrolled to; null for now. */
  readonly onMoment: (moment: number | null) => void
}

/** Time for which the chart must rest before its moment is told. */
const restMs = 250

/** Shows candles and volume. Missing candles are marked, and the forming candle is pale. */
export function CandlePanel({ view, change, live, instrument, onMoment }: Props) {
  const { symbol, interval, at } = view
  const precision = instrument?.pricePrecision ?? null
  const { isTraded, error, key, current, candles, loadOlder, loadNewer, reload } = useCandles(view, live)
  const [pointed, setPointed] = useState<number | null>(null)
  const [seenLast, setSeen] = useState<Seen | null>(null)
  // What was seen before something else was asked for does not count any more.
  const seen = seenLast?.key === key ? seenLast : null
  useEffect(() => setSeen(null), [key])
  /** Moment of the page. Only a person's acts change it: the address holds what was asked for, and `seen` a move since. */
  const asOf = seen === null ? at : seen.moment
  const lengthMs = intervalMs[interval]
  const chartGaps = current === null ? [] : chartGapsOf(candles, lengthMs, current, Date.now())
  /** Range that stays in view when the interval changes. */
  const kept = useRef<(TimeRange & { readonly at: number | null }) | null>(null)
  const around = at === null ? null : { from: at - 60 * lengthMs, to: at + 60 * lengthMs }
  const changeInterval = (next: Interval, span: TimeRange | undefined) => {
    kept.current = span === undefined ? null : { ...span, at: asOf }
    change({ interval: next, at: asOf }, 'replace')
  }
  const span = kept.current?.at === at ? kept.current : around
  const hasNewest = current?.hasNewest === true
  const { container, chart } = useChart(
    { key, candles, chartGaps, lengthMs, precision, at, span, hasNewest },
    {
      onPoint: setPointed,
      onSeen: setSeen,
      onOldest: () => void loadOlder(),
      onNewest: () => void loadNewer(),
      onTooMany: (span) => {
        const longer = shownIntervals[shownIntervals.indexOf(interval) + 1]
        if (current !== null && longer !== undefined) changeInterval(longer, span)
        else void loadOlder()
      },
    },
  )
  useMoment(asOf, onMoment)
  const toNewest = () => {
    if (at !== null) return change({ at: null })
    setSeen(null)
    if (hasNewest) return chart.current?.toNewest()
    chart.current?.reset()
    reload()
  }
  const isElsewhere =
    seen === null && at !== null && !candles.some(({ openTime }) => Math.abs(openTime - at) <= 60 * lengthMs)
  const until = seen?.moment == null ? asOf : seen.moment - lengthMs
  const last = candles.findLast(({ openTime }) => openTime <= (until ?? Number.POSITIVE_INFINITY))
  const shown = candles.find(({ openTime }) => openTime === pointed) ?? (isElsewhere ? null : (last ?? null))
  return (
    <Panel
      id="candles"
      title="Candles"
      csv={csvOf(view, candles)}
      aside={<Choices view={view} change={change} choose={(next) => changeInterval(next, seen?.span)} />}
    >
      <p class="candle-line" aria-live="off">
        {shown !== null ? (
          <CandleLine candle={shown} isNewest={shown === candles.at(-1)} />
        ) : current === null && isTraded ? (
          (error ?? 'Loading…')
        ) : (
          <Nothing view={view} instrument={instrument} candles={candles} />
        )}
      </p>
      <div class="chart" ref={container} role="img" aria-label={describe(symbol, interval, candles, chartGaps)} />
      <div class="panel-foot">
        <Legend keys={{ forming: 'forming', empty: 'no trade', missing: 'not recorded', lost: 'lost' }}>
          {current !== null && current.source !== interval && <em>rolled up from {current.source}</em>}
          {instrument != null && (
            <span>{`price in ${instrument.quoteCoin ?? '?'}, volume in ${instrument.baseCoin ?? '?'}`}</span>
          )}
        </Legend>
        <ChartButtons chart={chart} at={at} change={change} toNewest={toNewest} />
      </div>
    </Panel>
  )
}

/** Tells the moment of the page once the chart rests. */
function useMoment(asOf: number | null, onMoment: Props['onMoment']): void {
  useEffect(() => {
    const timer = setTimeout(() => onMoment(asOf), restMs)
    return () => clearTimeout(timer)
  }, [asOf])
}

interface ButtonsProps extends Pick<ViewProps, 'change'> {
  readonly chart: RefObject<CandleChart | null>
  readonly at: number | null
  readonly toNewest: () => void
}

function ChartButtons({ chart, at, change, toNewest }: ButtonsProps) {
  return (
    <div class="chart-buttons">
      <label>
        Go to{' '}
        <input
          type="text"
          size={16}
          placeholder="2026-11-20 14:03"
          title="UTC. Enter goes there."
          // Drawn anew only with another time, so that live events leave alone what is being typed.
          key={at}
          defaultValue={at === null ? '' : minuteText(at).replace('T', ' ')}
          onChange={({ currentTarget: field }) => {
            const at = timeOf(field.value)
            const isNone = at === null && field.value.trim() !== ''
            const isAhead = at !== null && at > Date.now()
            field.setCustomValidity(
              isNone ? 'A time in UTC: 2026-11-20 14:03' : isAhead ? 'This time is still to come.' : '',
            )
            if (field.reportValidity()) change({ at })
          }}
        />
      </label>
      {moves.map(([label, sign, move]) => (
        <button key={label} onClick={() => chart.current && move(chart.current)} aria-label={label}>
          {sign}
        </button>
      ))}
      <button onClick={toNewest}>Newest</button>
    </div>
  )
}

/** Buttons that move the chart, with their sign. */
const moves: readonly (readonly [label: string, sign: string, move: (chart: CandleChart) => void])[] = [
  ['Earlier', '←', (chart) => chart.scroll(-0.5)],
  ['Zoom in', '+', (chart) => chart.zoom(0.6)],
  ['Zoom out', '−', (chart) => chart.zoom(1.7)],
  ['Later', '→', (chart) => chart.scroll(0.5)],
]

interface Drawn extends Omit<ChartContents, 'slots'> {
  readonly candles: readonly Candle[]
  readonly precision: number | null
}

function useChart({ candles, precision, ...shown }: Drawn, given: ChartEvents) {
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
    if (isReady) drawing.current?.show({ ...shown, slots: slotsOf(candles, shown.chartGaps, shown.lengthMs) })
  }, [isReady, candles, shown.key])
  return { container, chart: drawing }
}

function Choices({ view, change, choose }: ViewProps & { choose: (interval: Interval) => void }) {
  return (
    <div class="choices">
      <select
        id="candle-type"
        aria-label="Type of candles"
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

function CandleLine({ candle, isNewest }: { candle: Candle; isNewest: boolean }) {
  const { openTime, open, high, low, close, baseVolume, isClosed, isComplete } = candle
  return (
    <>
      <time>{moment(openTime).slice(0, 16)}</time>
      {Object.entries({ O: open, H: high, L: low, C: close, Vol: baseVolume }).map(([name, value]) => (
        <b key={name}>
          <span class="dim">{name}</span> {value === null ? '–' : decimal(value)}
        </b>
      ))}
      {!isComplete && <em>{isNewest && !isClosed ? 'forming' : 'not recorded in full'}</em>}
    </>
  )
}

const csvFields = ['open', 'high', 'low', 'close', 'baseVolume', 'quoteTurnover', 'isClosed', 'isComplete'] as const
const csvColumns = [
  'open_time',
  'open',
  'high',
  'low',
  'close',
  'base_volume',
  'quote_turnover',
  'is_closed',
  'is_complete',
]

function csvOf({ category, symbol, type, interval }: View, candles: readonly Candle[]) {
  if (candles.length === 0) return undefined
  const rows = () => [
    csvColumns,
    ...candles.map((candle) => [new Date(candle.openTime).toISOString(), ...csvFields.map((name) => candle[name])]),
  ]
  return { name: `${category ?? ''}-${symbol ?? ''}-candles-${type}-${interval}`, rows }
}

interface NothingProps extends Pick<Props, 'view' | 'instrument'> {
  /** Candles that the chart shows instead. */
  readonly candles: readonly Candle[]
}

/** Explains why there are no candles, and how to get them if that can work. */
function Nothing({ view: { category, symbol, type, interval, at }, instrument, candles }: NothingProps) {
  if (category === null || !isTradedCategory(category)) return <>This category has no candles.</>
  if (category === 'SPOT' && type !== 'market') return <>Only futures have {type} candles.</>
  const nearest = candles.findLast(({ openTime }) => openTime <= (at ?? 0)) ?? candles[0]
  const instead = nearest === undefined ? '' : ` (the chart shows the nearest, of ${minuteText(nearest.openTime)})`
  const around = at === null ? '' : ` around ${minuteText(at)}${instead}`
  const isGone = instrument?.disappearedAt != null
  if (isGone) return <>No candles of this kind are stored{around}. The service does not list the instrument any more.</>
  if (instrument === null) return <>No candles are stored{around}.</>
  const ofType = type === 'market' ? '' : ` --type ${type}`
  const command = `npx market-recorder backfill --category ${category} --symbol ${symbol ?? ''} --interval ${interval}${ofType}`
  const date = (time: number) => minuteText(time).slice(0, 10)
  const range = at === null ? date(Date.now() - 7 * dayMs) : `${date(at)} --to ${date(at + dayMs)}`
  return (
    <>
      No candles of this kind are stored{around}. To fetch them: <Command text={`${command} --from ${range}`} />
    </>
  )
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
