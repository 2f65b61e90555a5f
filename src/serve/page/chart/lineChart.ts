import {
  createChart,
  type IChartApi,
  type ISeriesApi,
  LineSeries,
  type LineData,
  LineType,
  type UTCTimestamp,
  type WhitespaceData,
} from 'lightweight-charts'
import type { TimeRange } from '../../../market/timeRange.js'
import { decimal } from '../format.js'
import { chartOptions, colour } from './drawing.js'

export interface Line {
  /** Name of the colour in the style sheet. */
  readonly colour: string
  readonly width: 1 | 2
  readonly isStepped?: boolean
  /** Values by the beginning of their step. */
  readonly values: ReadonlyMap<number, number>
}

/** Draws lines over a whole range of time. Unknown values leave a space of their length. */
export class LineChart {
  readonly #chart: IChartApi
  #series: ISeriesApi<'Line'>[] = []
  #lines: readonly Line[] = []

  constructor(container: HTMLElement) {
    this.#chart = createChart(container, chartOptions())
  }

  show(lines: readonly Line[], span: TimeRange, stepMs: number, digits: number): void {
    this.#lines = lines
    const formatter = (value: number) => decimal(value.toFixed(digits))
    this.#series = lines.map(
      ({ width, isStepped = false }, index) =>
        this.#series[index] ??
        this.#chart.addSeries(LineSeries, {
          lineWidth: width,
          lineType: isStepped ? LineType.WithSteps : LineType.Simple,
          lastValueVisible: width > 1,
          priceLineVisible: false,
          crosshairMarkerRadius: 3,
        }),
    )
    const priceFormat = { type: 'custom', formatter, minMove: 10 ** -digits } as const
    for (const [index, { values }] of lines.entries()) {
      this.#series[index]?.applyOptions({ priceFormat })
      this.#series[index]?.setData(placesOf(values, span, stepMs))
    }
    this.restyle()
    this.#chart.timeScale().fitContent()
  }

  restyle(): void {
    this.#chart.applyOptions(chartOptions())
    // At fixed edges, the first and the last label of the axis are whole.
    this.#chart.timeScale().applyOptions({ fixLeftEdge: true, fixRightEdge: true, rightOffset: 0 })
    for (const [index, line] of this.#lines.entries()) this.#series[index]?.applyOptions({ color: colour(line.colour) })
  }

  close(): void {
    this.#chart.remove()
  }
}

/** Returns a place on the axis for each step, with or without a value. */
function placesOf(values: ReadonlyMap<number, number>, { from, to }: TimeRange, stepMs: number) {
  const places: (LineData<UTCTimestamp> | WhitespaceData<UTCTimestamp>)[] = []
  const newest = [...values.keys()].at(-1) ?? 0
  for (let at = Math.ceil(from / stepMs) * stepMs; at < to; at += stepMs) {
    const time = (at / 1000) as UTCTimestamp
    const value = values.get(at)
    const isBeforeGap = at < newest && !values.has(at + stepMs)
    if (value === undefined) places.push({ time })
    // The line must not cross a gap, because the values in it are unknown.
    else places.push({ time, value, ...(isBeforeGap && { color: 'transparent' }) })
  }
  return places
}
