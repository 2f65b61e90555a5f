import { useEffect, useRef, useState } from 'preact/hooks'
import { moment } from '../format.js'
import { type ChartOptions, ColorType, CrosshairMode, type DeepPartial } from 'lightweight-charts'

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
