import {
  createChart,
  type IChartApi,
  type ISeriesApi,
  type LineData,
  LineSeries,
  LineType,
  type UTCTimestamp,
  type WhitespaceData,
} from 'lightweight-charts'
import type { MarketResponses } from '../../api/marketContract.js'
import { approximate } from '../format.js'
import { chartOptions, colour } from './style.js'

type Point = MarketResponses['history']['points'][number]

/** Spread above, funding below, on one time axis. */
export class HistoryChart {
  readonly #chart: IChartApi
  readonly #spread: ISeriesApi<'Line'>
  readonly #widest: ISeriesApi<'Line'>
  readonly #funding: ISeriesApi<'Line'>

  constructor(container: HTMLElement) {
    this.#chart = createChart(container, chartOptions())
    const quiet = { priceLineVisible: false, crosshairMarkerRadius: 3 } as const
    const bps = { type: 'custom', formatter: (value: number) => `${value.toFixed(2)} bps`, minMove: 0.01 } as const
    const share = { type: 'custom', formatter: (value: number) => `${value.toFixed(4)} %`, minMove: 0.0001 } as const
    this.#widest = this.#chart.addSeries(LineSeries, {
      ...quiet,
      lineWidth: 1,
      lastValueVisible: false,
      priceFormat: bps,
    })
    this.#spread = this.#chart.addSeries(LineSeries, { ...quiet, lineWidth: 2, priceFormat: bps })
    this.#funding = this.#chart.addSeries(
      LineSeries,
      { ...quiet, lineWidth: 2, lineType: LineType.WithSteps, priceFormat: share },
      1,
    )
    this.restyle()
  }

  show(points: readonly Point[], stepMs: number): void {
    // Spot has no funding: its pane would be an empty half.
    const hasFunding = points.some(({ fundingRate }) => fundingRate !== null)
    this.#chart.panes()[1]?.setStretchFactor(hasFunding ? 1 : 0.001)
    this.#spread.setData(line(points, stepMs, ({ spreadBps }) => spreadBps, 1))
    this.#widest.setData(line(points, stepMs, ({ maxSpreadBps }) => maxSpreadBps, 1))
    this.#funding.setData(line(points, stepMs, ({ fundingRate }) => fundingRate, 100))
    this.#chart.timeScale().fitContent()
  }

  restyle(): void {
    this.#chart.applyOptions(chartOptions())
    this.#spread.applyOptions({ color: colour('accent') })
    this.#widest.applyOptions({ color: colour('accent-soft') })
    this.#funding.applyOptions({ color: colour('warn') })
  }

  close(): void {
    this.#chart.remove()
  }
}

/** A place on the axis for each step, with or without a value: a gap in time is as wide as it was long. */
function line(points: readonly Point[], stepMs: number, valueOf: (point: Point) => string | null, factor: number) {
  const byTime = new Map(points.map((point) => [point.time, valueOf(point)]))
  const first = points[0]?.time ?? 0
  const last = points.at(-1)?.time ?? -1
  const drawn: (LineData<UTCTimestamp> | WhitespaceData<UTCTimestamp>)[] = []
  for (let at = first; at <= last; at += stepMs) {
    const time = (at / 1000) as UTCTimestamp
    const value = byTime.get(at) ?? null
    const isBeforeGap = at < last && (byTime.get(at + stepMs) ?? null) === null
    if (value === null) drawn.push({ time })
    // The line would lead across the gap: nobody knows what was in it.
    else drawn.push({ time, value: approximate(value) * factor, ...(isBeforeGap && { color: 'transparent' }) })
  }
  return drawn
}
