export type Theme = 'auto' | 'light' | 'dark'

const key = 'market-recorder.theme'

export function storedTheme(): Theme {
  const stored = localStorage.getItem(key)
  return stored === 'light' || stored === 'dark' ? stored : 'auto'
}

export function applyTheme(theme: Theme): void {
  if (theme === 'auto') {
    localStorage.removeItem(key)
    delete document.documentElement.dataset.theme
  } else {
    localStorage.setItem(key, theme)
    document.documentElement.dataset.theme = theme
  }
  dispatchEvent(new Event('themechange'))
}

/** Calls `run` whenever the colours may have changed. Returns what ends it. */
export function onThemeChange(run: () => void): () => void {
  const system = matchMedia('(prefers-color-scheme: dark)')
  system.addEventListener('change', run)
  addEventListener('themechange', run)
  return () => {
    system.removeEventListener('change', run)
    removeEventListener('themechange', run)
  }
}

/** A colour of the style sheet, as it is now: rgb(…) of the scheme in use. */
export function colour(name: string): string {
  const probe = document.body.appendChild(document.createElement('span'))
  probe.style.color = `var(--${name})`
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
