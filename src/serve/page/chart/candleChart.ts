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
  /** Called with the times at both edges when the view moves; null while the newest candle is in view. */
  onSeen(span: TimeRange | null): void
  /** Called when the view comes near the oldest candle. `onNewest` is called near the newest one. */
  onOldest(): void
  onNewest(): void
  /** Called when the view spans so much time that a candle is narrower than a pixel. */
  onTooMany(span: TimeRange): void
}

const volumePane = 1
const nearEnd = 30

/** Draws candles and volume. The chart keeps the visitor's zoom when its candles change. */
export class CandleChart {
  readonly #chart: IChartApi
  readonly #candles: ISeriesApi<'Candlestick'>
  readonly #volume: ISeriesApi<'Histogram'>
  readonly #bands = new Bands()
  #slots: readonly Slot[] = []
  #gaps: readonly ChartGap[] = []
  #lengthMs = 60_000

  /** @param events returns the current handlers, because the page replaces them with every change */
  constructor(container: HTMLElement, events: () => ChartEvents) {
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
    this.#chart.timeScale().subscribeVisibleLogicalRangeChange((range) => {
      if (range === null || this.#slots.length === 0) return
      const isAtNewest = range.to >= this.#slots.length - 1
      events().onSeen(isAtNewest ? null : { from: this.#timeAt(range.from), to: this.#timeAt(Math.floor(range.to)) })
      if (range.to - range.from > this.#chart.timeScale().width()) return events().onTooMany(this.span())
      if (range.from < nearEnd) events().onOldest()
      if (range.to > this.#slots.length - nearEnd) events().onNewest()
    })
  }

  /** @param focus range to keep in view; null follows the newest candle */
  show(slots: readonly Slot[], chartGaps: readonly ChartGap[], lengthMs: number, focus: TimeRange | null = null): void {
    const before = this.#slots
    const range = this.#chart.timeScale().getVisibleLogicalRange()
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
    if (before.length === 0) this.#focusOn(focus)
    else if (range !== null && (focus !== null || range.to < before.length)) this.#keepInView(before, range)
  }

  /** Returns the time range in view. */
  span(): TimeRange {
    const { from = 0, to = 0 } = this.#chart.timeScale().getVisibleLogicalRange() ?? {}
    return { from: this.#timeAt(from), to: this.#timeAt(to) }
  }

  /** Returns true if the newest candle is in view. */
  isAtNewest(): boolean {
    return (this.#chart.timeScale().getVisibleLogicalRange()?.to ?? 0) >= this.#slots.length - 1
  }

  /** Forgets the view, so that the next candles are shown from the newest one. */
  reset(): void {
    this.#slots = []
  }

  #focusOn(focus: TimeRange | null): void {
    if (focus === null) return this.toNewest()
    const isLater = this.#slots.every(({ time }) => time < focus.from)
    // After the last candle there are places for missing ones, and perhaps for more candles.
    const from = this.#slots.findLastIndex(({ time, candle }) => (isLater ? candle !== null : time <= focus.from))
    const to = isLater ? from : this.#slots.findLastIndex(({ time }) => time <= focus.to)
    const bars = Math.max(40, to - from)
    this.#chart.timeScale().setVisibleLogicalRange({ from: (from + to - bars) / 2, to: (from + to + bars) / 2 })
  }

  /** Keeps the visible candles in place when others are added or removed on either side. */
  #keepInView(before: readonly Slot[], { from, to }: { readonly from: number; readonly to: number }): void {
    const anchor = Math.max(0, Math.min(before.length - 1, Math.round(from)))
    const place = this.#slots.findIndex(({ time }) => time === before[anchor]?.time)
    // The chart may have moved by itself when it took the candles, so the range is always set again.
    if (place < 0) return
    this.#chart.timeScale().setVisibleLogicalRange({ from: from + place - anchor, to: to + place - anchor })
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
    const scale = this.#chart.timeScale()
    const bars = Math.max(40, Math.min(160, Math.floor(scale.width() / 7)))
    scale.setVisibleLogicalRange({ from: Math.max(-2, this.#slots.length - bars), to: this.#slots.length + 3 })
  }

  /** @param share part of the visible range to scroll by; negative to the left */
  scroll(share: number): void {
    const scale = this.#chart.timeScale()
    const range = scale.getVisibleLogicalRange()
    if (range === null) return
    const by = (range.to - range.from) * share
    scale.setVisibleLogicalRange({ from: range.from + by, to: range.to + by })
  }

  /** @param factor ratio of the new range to the visible one */
  zoom(factor: number): void {
    const scale = this.#chart.timeScale()
    const range = scale.getVisibleLogicalRange()
    if (range !== null)
      scale.setVisibleLogicalRange({ from: range.to - (range.to - range.from) * factor, to: range.to })
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
