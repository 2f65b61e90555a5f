import { type ChartOptions, ColorType, CrosshairMode, type DeepPartial } from 'lightweight-charts'

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
