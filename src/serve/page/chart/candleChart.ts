import {
  CandlestickSeries,
  createChart,
  HistogramSeries,
  type IChartApi,
  type ISeriesApi,
  PriceLineSource,
  type UTCTimestamp,
} from 'lightweight-charts'
import type { TimeRange } from '../../../market/timeRange.js'
import { approximate, decimal, moment } from '../format.js'
import { type ChartGap, placesOf, type Slot } from './model.js'
import { Bands, chartOptions, colour } from './drawing.js'

/** Contents of the chart. */
export interface ChartContents {
  /** Names what was asked for. Another name is shown anew, and an equal one stays where it is. */
  readonly key: string
  readonly slots: readonly Slot[]
  readonly chartGaps: readonly ChartGap[]
  readonly lengthMs: number
  /** Moment asked for, which is marked; null follows the newest candle. */
  readonly at: number | null
  /** Times to show around that moment at first. */
  readonly span: TimeRange | null
  /** True if the last of the slots is the newest candle that there is. */
  readonly hasNewest: boolean
}

/** Where somebody has moved the chart to, away from what was asked for. */
export interface Seen extends Pick<ChartContents, 'key'> {
  readonly span: TimeRange
  /** End of the last candle in view; null if that is the newest one. */
  readonly moment: number | null
}

export interface ChartEvents {
  /** Called with the time under the pointer; null when the pointer leaves the chart. */
  onPoint(time: number | null): void
  /** Called when somebody has moved the chart, never for a move of its own; null while what was asked for is in view. */
  onSeen(seen: Seen | null): void
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

/** Events by which a person moves the chart. */
const gestures = ['pointermove', 'touchmove', 'wheel', 'dblclick'] as const

/**
 * Draws candles and volume. The library moves with its next frame and tells old places until then, and it moves by
 * itself when it takes candles. So the view is kept here, and its places count only after a person's gesture.
 */
export class CandleChart {
  readonly #chart: IChartApi
  readonly #candles: ISeriesApi<'Candlestick'>
  readonly #volume: ISeriesApi<'Histogram'>
  readonly #bands = new Bands()
  readonly #events: () => ChartEvents
  #shown: ChartContents = {
    key: '',
    slots: [],
    chartGaps: [],
    lengthMs: 60_000,
    at: null,
    span: null,
    hasNewest: false,
  }
  #view: Places = { from: 0, to: 0 }
  /** The view holds on to this when candles come or go: the moment asked for, the newest candle, or its left edge. */
  #holds: 'moment' | 'newest' | 'edge' = 'newest'
  /** Frame with which the chart moves to the view; null once it has. */
  #frame: number | null = null
  #isByHand = false

  /** @param events returns the current handlers, because the page replaces them with every change */
  constructor(container: HTMLElement, events: () => ChartEvents) {
    this.#events = events
    this.#chart = createChart(container, chartOptions())
    this.#candles = this.#chart.addSeries(CandlestickSeries, {
      borderVisible: true,
      // The price that the axis names, too.
      priceLineSource: PriceLineSource.LastVisible,
    })
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
    for (const name of gestures) {
      const note = (event: Event) => {
        if (!(event instanceof PointerEvent) || event.type !== 'pointermove' || event.buttons > 0) this.#isByHand = true
      }
      container.addEventListener(name, note, { capture: true, passive: true })
    }
    this.#chart.timeScale().subscribeVisibleLogicalRangeChange((places) => {
      if (places === null || !this.#isByHand || this.#frame !== null || this.#shown.slots.length === 0) return
      this.#view = places
      this.#tell()
      this.#load()
    })
  }

  show(shown: ChartContents): void {
    const { slots, lengthMs, at, chartGaps } = shown
    const before = this.#shown
    this.#shown = shown
    this.#isByHand = false
    const colours = palette()
    this.#candles.applyOptions({ priceLineVisible: at === null })
    // Without candles, the axes would keep the prices and volumes of earlier ones.
    for (const series of [this.#candles, this.#volume]) series.priceScale().applyOptions({ visible: slots.length > 0 })
    this.#candles.setData(slots.map((slot) => barOf(slot, colours)))
    this.#volume.setData(slots.map((slot) => volumeOf(slot, colours)))
    const place = at === null ? -1 : placeOf(slots, at)
    const isThere = at !== null && (place < slots.length - 1 || at < this.#timeAt(place) + lengthMs)
    this.#bands.set(
      chartGaps.flatMap(({ kind, ...range }) => {
        const places = placesOf(range, lengthMs)
        const [first, last] = [places[0], places.at(-1)]
        return first === undefined || last === undefined
          ? []
          : [{ from: first / 1000, to: last / 1000, colour: colours[kind] }]
      }),
      place >= 0 && isThere
        ? { at: this.#timeAt(place) / 1000, text: moment(at).slice(0, 16), colour: colours.mark }
        : null,
    )
    if (slots.length === 0) return
    if (before.slots.length === 0 || before.key !== shown.key) return this.#placeAnew()
    const { from, to } = this.#view
    const held = this.#holds === 'moment' && at !== null ? at : (before.slots[Math.max(0, Math.round(from))]?.time ?? 0)
    const by =
      this.#holds === 'newest' ? slots.length - before.slots.length : placeOf(slots, held) - placeOf(before.slots, held)
    this.#moveTo({ from: from + by, to: to + by })
  }

  /** Returns the time range in view. */
  span(): TimeRange {
    const last = Math.min(Math.floor(this.#view.to), this.#shown.slots.length - 1)
    return { from: this.#timeAt(this.#view.from), to: this.#timeAt(last) }
  }

  /** Forgets the view, so that the next candles are shown from the newest one. */
  reset(): void {
    this.#shown = { ...this.#shown, slots: [] }
  }

  #placeAnew(): void {
    const { slots, at, span } = this.#shown
    if (at === null || span === null) return this.toNewest()
    this.#holds = 'moment'
    const isLater = slots.every(({ time }) => time < span.from)
    // After the last candle there are places for missing ones, and perhaps for more candles.
    const from = isLater ? slots.findLastIndex(({ candle }) => candle !== null) : placeOf(slots, span.from)
    const to = isLater ? from : placeOf(slots, span.to)
    const bars = Math.max(40, to - from)
    this.#moveTo({ from: (from + to - bars) / 2, to: (from + to + bars) / 2 })
  }

  #moveTo(places: Places): void {
    this.#view = places
    this.#isByHand = false
    this.#chart.timeScale().setVisibleLogicalRange(places)
    if (this.#frame !== null) cancelAnimationFrame(this.#frame)
    this.#frame = requestAnimationFrame(() => {
      this.#frame = null
      // There are limits to what the chart shows.
      this.#view = this.#chart.timeScale().getVisibleLogicalRange() ?? places
      this.#load()
    })
  }

  /** Tells where somebody has moved the chart to. */
  #tell(): void {
    const { key, slots, at, lengthMs, hasNewest } = this.#shown
    const { from, to } = this.#view
    const asked = at === null ? -1 : placeOf(slots, at)
    const isAskedInView = at !== null && from <= asked && asked <= to
    this.#holds = isAskedInView ? 'moment' : hasNewest && to >= slots.length - 1 ? 'newest' : 'edge'
    const span = this.span()
    const isAsFirst = isAskedInView || (at === null && this.#holds === 'newest')
    const moment = this.#holds === 'newest' ? null : span.to + lengthMs
    this.#events().onSeen(isAsFirst ? null : { key, span, moment })
  }

  /** Asks for what the view needs. */
  #load(): void {
    const { from, to } = this.#view
    if (to - from > this.#chart.timeScale().width()) return this.#events().onTooMany(this.span())
    if (from < nearEnd) this.#events().onOldest()
    if (to > this.#shown.slots.length - nearEnd) this.#events().onNewest()
  }

  #timeAt(place: number): number {
    const { slots, lengthMs } = this.#shown
    const nearest = Math.max(0, Math.min(slots.length - 1, Math.round(place)))
    return (slots[nearest]?.time ?? 0) + (Math.round(place) - nearest) * lengthMs
  }

  setPrecision(digits: number): void {
    const formatter = (price: number) => decimal(price.toFixed(digits))
    this.#candles.applyOptions({ priceFormat: { type: 'custom', formatter, minMove: 10 ** -digits } })
  }

  /** Applies the page's colours again after they changed. */
  restyle(): void {
    this.#chart.applyOptions(chartOptions())
    this.show(this.#shown)
  }

  toNewest(): void {
    const { length } = this.#shown.slots
    const bars = Math.max(40, Math.min(160, Math.floor(this.#chart.timeScale().width() / 7)))
    this.#holds = 'newest'
    this.#moveTo({ from: Math.max(-2, length - bars), to: length + 3 })
  }

  /** @param share part of the visible range to scroll by; negative to the left */
  scroll(share: number): void {
    const by = (this.#view.to - this.#view.from) * share
    this.#moveByHand({ from: this.#view.from + by, to: this.#view.to + by })
  }

  /** @param factor ratio of the new range to the visible one */
  zoom(factor: number): void {
    const { from, to } = this.#view
    this.#moveByHand({ from: to - (to - from) * factor, to })
  }

  #moveByHand(places: Places): void {
    if (this.#shown.slots.length === 0) return
    this.#moveTo(places)
    this.#tell()
  }

  close(): void {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame)
    this.#chart.remove()
  }
}

/** Returns the place of a moment: the last one that begins until then; -1 before the first. */
function placeOf(slots: readonly Slot[], time: number): number {
  return slots.findLastIndex((slot) => slot.time <= time)
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
    mark: colour('accent'),
  }
}

function barOf({ time, candle }: Slot, { up, down, upSoft, downSoft }: Palette) {
  const at = (time / 1000) as UTCTimestamp
  if (candle === null) return { time: at }
  const [open, high, low, close] = [candle.open, candle.high, candle.low, candle.close].map(approximate)
  if (open === undefined || high === undefined || low === undefined || close === undefined) return { time: at }
  const edge = close >= open ? up : down
  // A candle that is still forming, or lacks a part, is pale.
  const body = candle.isComplete ? edge : close >= open ? upSoft : downSoft
  return { time: at, open, high, low, close, color: body, borderColor: edge, wickColor: edge }
}

function volumeOf({ time, candle }: Slot, { upSoft, downSoft }: Palette) {
  const at = (time / 1000) as UTCTimestamp
  if (candle === null || candle.baseVolume === null) return { time: at }
  const rises = approximate(candle.close) >= approximate(candle.open)
  return { time: at, value: approximate(candle.baseVolume), color: rises ? upSoft : downSoft }
}
