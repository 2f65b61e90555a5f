import {
  createChart,
  type IChartApi,
  type ISeriesApi,
  LineSeries,
  LineType,
  type UTCTimestamp,
} from 'lightweight-charts'
import type { HistoryAnswer } from '../../api/contract.js'
import { approximate } from '../format.js'
import { colour } from '../theme.js'
import { chartOptions } from './style.js'

type Point = HistoryAnswer['points'][number]

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

/** A hole in time breaks the line: nobody knows what was in it. */
function line(points: readonly Point[], stepMs: number, valueOf: (point: Point) => string | null, factor: number) {
  return points.flatMap((point, index) => {
    const value = valueOf(point)
    const time = (point.time / 1000) as UTCTimestamp
    const drawn = value === null ? { time } : { time, value: approximate(value) * factor }
    const next = points[index + 1]
    const isBeforeHole = next !== undefined && next.time - point.time > 3 * stepMs
    return isBeforeHole ? [drawn, { time: ((point.time + stepMs) / 1000) as UTCTimestamp }] : [drawn]
  })
}
