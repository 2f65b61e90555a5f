import {
  CandlestickSeries,
  createChart,
  HistogramSeries,
  type IChartApi,
  type ISeriesApi,
  type UTCTimestamp,
  type IPrimitivePaneRenderer,
  type IPrimitivePaneView,
  type ISeriesPrimitive,
  type SeriesAttachedParameter,
} from 'lightweight-charts'
import type { TimeRange } from '../../../market/timeRange.js'
import { approximate, decimal } from '../format.js'
import { type ChartGap, placesOf, type Slot } from './model.js'
import { chartOptions, colour } from './drawing.js'

export interface ChartEvents {
  /** Called with the time under the pointer; null when the pointer leaves the chart. */
  onPoint(time: number | null): void
  /** Called with the times at both edges when the view moves; null while what was asked for is in view. */
  onSeen(span: TimeRange | null): void
  /** Called when the view comes near the oldest candle. `onNewest` is called near the newest one. */
  onOldest(): void
  onNewest(): void
  /** Called when the view spans so much time that a candle is narrower than a pixel. */
  onTooMany(span: TimeRange): void
}

const volumePane = 1
const nearEnd = 30

/** Places at both edges of the view, the first slot being 0. */
interface Places {
  readonly from: number
  readonly to: number
}

/** Draws candles and volume. The chart keeps the visitor's zoom when its candles change. */
export class CandleChart {
  readonly #chart: IChartApi
  readonly #candles: ISeriesApi<'Candlestick'>
  readonly #volume: ISeriesApi<'Histogram'>
  readonly #bands = new Bands()
  #slots: readonly Slot[] = []
  #gaps: readonly ChartGap[] = []
  #lengthMs = 60_000
  /** Time of the place that stands for the moment asked for; null if that is the newest candle. */
  #asked: number | null = null
  /** Places that the chart will show with its next frame; null if it shows them already. */
  #coming: Places | null = null
  readonly #events: () => ChartEvents

  /** @param events returns the current handlers, because the page replaces them with every change */
  constructor(container: HTMLElement, events: () => ChartEvents) {
    this.#events = events
    this.#chart = createChart(container, chartOptions())
    this.#candles = this.#chart.addSeries(CandlestickSeries, { priceLineVisible: true, borderVisible: true })
    this.#volume = this.#chart.addSeries(
      HistogramSeries,
      { priceFormat: { type: 'volume' }, priceLineVisible: false, lastValueVisible: false },
      volumePane,
    )
    this.#chart.panes()[volumePane]?.setStretchFactor(0.22)
    this.#candles.attachPrimitive(this.#bands)
    this.#chart.subscribeCrosshairMove(({ time }) =>
      events().onPoint(typeof time === 'number' ? Number(time) * 1000 : null),
    )
    this.#chart.timeScale().subscribeVisibleLogicalRangeChange(() => {
      const range = this.#places()
      if (range === null || this.#slots.length === 0) return
      const seen = { from: this.#timeAt(range.from), to: this.#timeAt(Math.floor(range.to)) }
      const asked = this.#asked ?? this.#slots.at(-1)?.time ?? 0
      events().onSeen(seen.from <= asked && asked <= seen.to ? null : seen)
      if (range.to - range.from > this.#chart.timeScale().width()) return events().onTooMany(this.span())
      if (range.from < nearEnd) events().onOldest()
      if (range.to > this.#slots.length - nearEnd) events().onNewest()
    })
  }

  /** @param focus range to show, around the moment asked for; null follows the newest candle */
  show(slots: readonly Slot[], chartGaps: readonly ChartGap[], lengthMs: number, focus: TimeRange | null = null): void {
    const before = this.#slots
    const range = this.#places()
    this.#slots = slots
    this.#gaps = chartGaps
    this.#lengthMs = lengthMs
    const colours = palette()
    this.#candles.setData(slots.map((slot) => barOf(slot, colours)))
    this.#volume.setData(slots.map((slot) => volumeOf(slot, colours)))
    this.#bands.set(
      chartGaps.flatMap(({ kind, ...range }) => {
        const places = placesOf(range, lengthMs)
        const [first, last] = [places[0], places.at(-1)]
        return first === undefined || last === undefined
          ? []
          : [{ from: first / 1000, to: last / 1000, colour: colours[kind] }]
      }),
    )
    if (before.length === 0 || slots.length === 0) this.#focusOn(focus)
    else if (range !== null && (focus !== null || range.to < before.length)) this.#keepInView(before, range)
  }

  /** Returns the time range in view. */
  span(): TimeRange {
    const { from = 0, to = 0 } = this.#places() ?? {}
    return { from: this.#timeAt(from), to: this.#timeAt(to) }
  }

  /** Forgets the view, so that the next candles are shown from the newest one. */
  reset(): void {
    this.#slots = []
  }

  #focusOn(focus: TimeRange | null): void {
    this.#asked = focus === null ? null : this.#placeIn(focus)
    // What the chart showed before does not count any more, also where it has nothing to show.
    this.#events().onSeen(null)
    if (focus === null) this.toNewest()
  }

  /** Shows a range, as far as there are places. Returns the time of the place that stands for its middle. */
  #placeIn(focus: TimeRange): number {
    const isLater = this.#slots.every(({ time }) => time < focus.from)
    // After the last candle there are places for missing ones, and perhaps for more candles.
    const from = this.#slots.findLastIndex(({ time, candle }) => (isLater ? candle !== null : time <= focus.from))
    const to = isLater ? from : this.#slots.findLastIndex(({ time }) => time <= focus.to)
    const [middle, half] = [(from + to) / 2, Math.max(40, to - from) / 2]
    this.#showPlaces({ from: middle - half, to: middle + half })
    const place = this.#slots.findLastIndex(({ time }) => time <= (focus.from + focus.to) / 2)
    // Gaps are drawn shorter, so the exact place may be out of view.
    return this.#timeAt(Math.abs(place - middle) < half - 1 ? place : middle)
  }

  /** Keeps the visible candles in place when others are added or removed on either side. */
  #keepInView(before: readonly Slot[], { from, to }: Places): void {
    const anchor = Math.max(0, Math.min(before.length - 1, Math.round(from)))
    const place = this.#slots.findIndex(({ time }) => time === before[anchor]?.time)
    // The chart may have moved by itself when it took the candles, so the range is always set again.
    if (place < 0) return
    this.#showPlaces({ from: from + place - anchor, to: to + place - anchor })
  }

  /** Until the next frame the chart tells where it was before, though more candles may come meanwhile. */
  #showPlaces(places: Places): void {
    this.#coming = places
    this.#chart.timeScale().setVisibleLogicalRange(places)
    requestAnimationFrame(() => {
      if (this.#coming === places) this.#coming = null
    })
  }

  #places(): Places | null {
    return this.#coming ?? this.#chart.timeScale().getVisibleLogicalRange()
  }

  #timeAt(place: number): number {
    const nearest = Math.max(0, Math.min(this.#slots.length - 1, Math.round(place)))
    return (this.#slots[nearest]?.time ?? 0) + (Math.round(place) - nearest) * this.#lengthMs
  }

  setPrecision(digits: number): void {
    const formatter = (price: number) => decimal(price.toFixed(digits))
    this.#candles.applyOptions({ priceFormat: { type: 'custom', formatter, minMove: 10 ** -digits } })
  }

  /** Applies the page's colours again after they changed. */
  restyle(): void {
    this.#chart.applyOptions(chartOptions())
    this.show(this.#slots, this.#gaps, this.#lengthMs)
  }

  toNewest(): void {
    const bars = Math.max(40, Math.min(160, Math.floor(this.#chart.timeScale().width() / 7)))
    this.#showPlaces({ from: Math.max(-2, this.#slots.length - bars), to: this.#slots.length + 3 })
  }

  /** @param share part of the visible range to scroll by; negative to the left */
  scroll(share: number): void {
    const range = this.#places()
    if (range === null) return
    const by = (range.to - range.from) * share
    this.#showPlaces({ from: range.from + by, to: range.to + by })
  }

  /** @param factor ratio of the new range to the visible one */
  zoom(factor: number): void {
    const range = this.#places()
    if (range !== null) this.#showPlaces({ from: range.to - (range.to - range.from) * factor, to: range.to })
  }

  close(): void {
    this.#chart.remove()
  }
}

type Palette = ReturnType<typeof palette>

function palette() {
  return {
    up: colour('up'),
    down: colour('down'),
    upSoft: colour('up-soft'),
    downSoft: colour('down-soft'),
    empty: colour('band-empty'),
    missing: colour('band-missing'),
    lost: colour('band-lost'),
  }
}

function barOf({ time, candle }: Slot, { up, down, upSoft, downSoft }: Palette) {
  const at = (time / 1000) as UTCTimestamp
  if (candle === null) return { time: at }
  const [open, high, low, close] = [candle.open, candle.high, candle.low, candle.close].map(approximate)
  if (open === undefined || high === undefined || low === undefined || close === undefined) return { time: at }
  const edge = close >= open ? up : down
  // A candle that is still forming is pale.
  const body = candle.isClosed ? edge : close >= open ? upSoft : downSoft
  return { time: at, open, high, low, close, color: body, borderColor: edge, wickColor: edge }
}

function volumeOf({ time, candle }: Slot, { upSoft, downSoft }: Palette) {
  const at = (time / 1000) as UTCTimestamp
  if (candle === null || candle.baseVolume === null) return { time: at }
  const rises = approximate(candle.close) >= approximate(candle.open)
  return { time: at, value: approximate(candle.baseVolume), color: rises ? upSoft : downSoft }
}

interface Band {
  /** First and last place of the band on the axis, in seconds. */
  readonly from: number
  readonly to: number
  readonly colour: string
}

type Target = Parameters<IPrimitivePaneRenderer['draw']>[0]

/** Draws coloured bands behind the candles. */
class Bands implements ISeriesPrimitive {
  #chart: IChartApi | undefined
  #update: (() => void) | undefined
  #bands: readonly Band[] = []

  attached({ chart, requestUpdate }: SeriesAttachedParameter): void {
    this.#chart = chart
    this.#update = requestUpdate
  }

  set(bands: readonly Band[]): void {
    this.#bands = bands
    this.#update?.()
  }

  paneViews(): readonly IPrimitivePaneView[] {
    return [{ zOrder: () => 'bottom', renderer: () => ({ draw: (target) => this.#draw(target) }) }]
  }

  #draw(target: Target): void {
    const scale = this.#chart?.timeScale()
    if (scale === undefined) return
    target.useBitmapCoordinateSpace(({ context, bitmapSize, horizontalPixelRatio }) => {
      const half = scale.options().barSpacing / 2
      for (const { from, to, colour } of this.#bands) {
        const left = scale.timeToCoordinate(from as UTCTimestamp)
        const right = scale.timeToCoordinate(to as UTCTimestamp)
        if (left === null || right === null) continue
        context.fillStyle = colour
        const x = (left - half) * horizontalPixelRatio
        context.fillRect(x, 0, (right + half) * horizontalPixelRatio - x, bitmapSize.height)
      }
    })
  }
}
