import type {
  IChartApi,
  IPrimitivePaneRenderer,
  IPrimitivePaneView,
  ISeriesPrimitive,
  SeriesAttachedParameter,
  UTCTimestamp,
} from 'lightweight-charts'

export interface Band {
  /** The first and the last place on the axis that it takes, seconds. */
  readonly from: number
  readonly to: number
  readonly colour: string
}

type Target = Parameters<IPrimitivePaneRenderer['draw']>[0]

/** Coloured stretches behind the candles. */
export class Bands implements ISeriesPrimitive {
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
