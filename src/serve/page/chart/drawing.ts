import { useEffect, useRef, useState } from 'preact/hooks'
import { type ChartOptions, ColorType, CrosshairMode, type DeepPartial } from 'lightweight-charts'

interface Drawing {
  /** Takes the page's colours again after they have changed. */
  restyle(): void
  close(): void
}

/**
 * A drawing that is kept over renders; its code is loaded after the rest of the page has been painted.
 *
 * @param draw loads it and draws into the element, once
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

/** Calls `run` whenever the colours may have changed. Returns what ends it. */
function onThemeChange(run: () => void): () => void {
  const system = matchMedia('(prefers-color-scheme: dark)')
  system.addEventListener('change', run)
  addEventListener('themechange', run)
  return () => {
    system.removeEventListener('change', run)
    removeEventListener('themechange', run)
  }
}

/** Options that follow the page's colours. */
export function chartOptions(): DeepPartial<ChartOptions> {
  const line = colour('chart-grid')
  return {
    autoSize: true,
    layout: {
      background: { type: ColorType.Solid, color: 'transparent' },
      textColor: colour('dim'),
      fontSize: 11,
      fontFamily: getComputedStyle(document.body).fontFamily,
      // The notice is at the foot of the page; the logo would bring a style of its own, which the page does not allow.
      attributionLogo: false,
      panes: { separatorColor: colour('border'), separatorHoverColor: colour('border'), enableResize: false },
    },
    grid: { vertLines: { color: line }, horzLines: { color: line } },
    crosshair: { mode: CrosshairMode.Normal },
    rightPriceScale: { borderVisible: false, entireTextOnly: true },
    timeScale: { borderVisible: false, timeVisible: true, secondsVisible: false, rightOffset: 4 },
    localization: { locale: 'en-GB' },
  }
}

/** A colour of the style sheet, as it is now: rgb(…) of the scheme in use. */
export function colour(name: string): string {
  const probe = document.body.appendChild(document.createElement('span'))
  probe.style.color = `var(--${name})`
  // Where the system chooses the colours, all would be its text colour.
  probe.style.setProperty('forced-color-adjust', 'none')
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
