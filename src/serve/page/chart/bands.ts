import type {
  IChartApi,
  IPrimitivePaneRenderer,
  IPrimitivePaneView,
  ISeriesPrimitive,
  ISeriesPrimitiveAxisView,
  SeriesAttachedParameter,
  UTCTimestamp,
} from 'lightweight-charts'

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
