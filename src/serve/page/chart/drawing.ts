import { useEffect, useRef, useState } from 'preact/hooks'

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
