import { useEffect, useRef, useState } from 'preact/hooks'
import { moment } from '../format.js'
import {
  type ChartOptions,
  ColorType,
  CrosshairMode,
  type DeepPartial,
  type IChartApi,
  type IPrimitivePaneRenderer,
  type IPrimitivePaneView,
  type ISeriesPrimitive,
  type ISeriesPrimitiveAxisView,
  type SeriesAttachedParameter,
  type UTCTimestamp,
} from 'lightweight-charts'

interface Drawing {
  /** Applies the page's colours again after they changed. */
  restyle(): void
  close(): void
}

/**
 * Keeps a drawing over renders. Its code is loaded after the first paint of the page.
 *
 * @param draw loads the code and returns a function that draws into the element; called once
 */
export function useDrawing<Kind extends Drawing>(draw: () => Promise<(container: HTMLElement) => Kind>) {
  const container = useRef<HTMLDivElement>(null)
  const drawing = useRef<Kind>(null)
  const [isReady, setReady] = useState(false)
  useEffect(() => {
    let isGone = false
    let endTheme: (() => void) | undefined
    void draw().then((drawInto) => {
      if (isGone || container.current === null) return
      drawing.current = drawInto(container.current)
      endTheme = onThemeChange(() => drawing.current?.restyle())
      setReady(true)
    })
    return () => {
      isGone = true
      endTheme?.()
      drawing.current?.close()
      drawing.current = null
    }
  }, [])
  return { container, drawing, isReady }
}

/** Calls `run` whenever the browser changes between light and dark. Returns a function that ends this. */
function onThemeChange(run: () => void): () => void {
  const system = matchMedia('(prefers-color-scheme: dark)')
  system.addEventListener('change', run)
  return () => system.removeEventListener('change', run)
}

/** Returns chart options in the page's colours. */
export function chartOptions(): DeepPartial<ChartOptions> {
  const line = colour('chart-grid')
  return {
    autoSize: true,
    layout: {
      background: { type: ColorType.Solid, color: 'transparent' },
      textColor: colour('dim'),
      fontSize: 11,
      fontFamily: getComputedStyle(document.body).fontFamily,
      // The page's footer has the attribution. The logo needs an inline style, which the page forbids.
      attributionLogo: false,
      panes: { separatorColor: colour('border'), separatorHoverColor: colour('border'), enableResize: false },
    },
    grid: { vertLines: { color: line }, horzLines: { color: line } },
    crosshair: { mode: CrosshairMode.Normal },
    rightPriceScale: { borderVisible: false, entireTextOnly: true },
    timeScale: {
      borderVisible: false,
      timeVisible: true,
      secondsVisible: false,
      rightOffset: 4,
      lockVisibleTimeRangeOnResize: true,
    },
    localization: { locale: 'en-GB', timeFormatter: (time: number) => moment(time * 1000) },
  }
}

/** Returns a colour of the style sheet in the current scheme, as rgb(…). */
export function colour(name: string): string {
  const probe = document.body.appendChild(document.createElement('span'))
  probe.style.color = `var(--${name})`
  // If the system forces its own colours, every colour would be its text colour.
  probe.style.setProperty('forced-color-adjust', 'none')
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

interface Band {
  /** First and last place of the band on the axis, in seconds. */
  readonly from: number
  readonly to: number
  readonly colour: string
}

/** The moment asked for, as a line over the candles and a label on the axis. */
interface Mark {
  /** Place of the line, in seconds. */
  readonly at: number
  readonly text: string
  readonly colour: string
}

type Target = Parameters<IPrimitivePaneRenderer['draw']>[0]

/** Draws coloured bands behind the candles, and marks a moment. */
export class Bands implements ISeriesPrimitive {
  #chart: IChartApi | undefined
  #update: (() => void) | undefined
  #bands: readonly Band[] = []
  #mark: Mark | null = null

  attached({ chart, requestUpdate }: SeriesAttachedParameter): void {
    this.#chart = chart
    this.#update = requestUpdate
  }

  set(bands: readonly Band[], mark: Mark | null): void {
    this.#bands = bands
    this.#mark = mark
    this.#update?.()
  }

  paneViews(): readonly IPrimitivePaneView[] {
    return [{ zOrder: () => 'bottom', renderer: () => ({ draw: (target) => this.#draw(target) }) }]
  }

  timeAxisViews(): readonly ISeriesPrimitiveAxisView[] {
    const mark = this.#mark
    const at = this.#coordinateOf(mark?.at ?? Number.NaN)
    if (mark === null || at === null) return []
    return [{ coordinate: () => at, text: () => mark.text, textColor: () => '#fff', backColor: () => mark.colour }]
  }

  #coordinateOf(time: number): number | null {
    return this.#chart?.timeScale().timeToCoordinate(time as UTCTimestamp) ?? null
  }

  #draw(target: Target): void {
    target.useBitmapCoordinateSpace(({ context, bitmapSize, horizontalPixelRatio }) => {
      const half = (this.#chart?.timeScale().options().barSpacing ?? 0) / 2
      const fill = (left: number, right: number, colour: string) => {
        context.fillStyle = colour
        context.fillRect(left * horizontalPixelRatio, 0, (right - left) * horizontalPixelRatio, bitmapSize.height)
      }
      for (const { from, to, colour } of this.#bands) {
        const [left, right] = [this.#coordinateOf(from), this.#coordinateOf(to)]
        if (left !== null && right !== null) fill(left - half, right + half, colour)
      }
      const at = this.#mark === null ? null : this.#coordinateOf(this.#mark.at)
      if (this.#mark !== null && at !== null) fill(at - 1, at + 1, this.#mark.colour)
    })
  }
}
