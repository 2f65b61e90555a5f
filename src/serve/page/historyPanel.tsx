import { useEffect, useRef, useState } from 'preact/hooks'
import type { Category } from '../../market/category.js'
import { useResponse } from './loaded.js'
import type { HistoryChart } from './chart/historyChart.js'
import { Panel } from './panel.js'
import { onThemeChange } from './theme.js'

const spans = [1, 6, 24, 168]

/** Spread and funding rate of the last hours. */
export function HistoryPanel({ category, symbol }: { category: Category; symbol: string }) {
  const [hours, setHours] = useState(6)
  const { response, error } = useResponse('/api/history', { category, symbol, hours }, { everyMs: 15_000 })
  const container = useRef<HTMLDivElement>(null)
  const chart = useRef<HistoryChart | null>(null)
  const [isReady, setReady] = useState(false)

  useEffect(() => {
    let isGone = false
    let endTheme: (() => void) | undefined
    void import('./chart/historyChart.js').then(({ HistoryChart: Chart }) => {
      if (isGone || container.current === null) return
      chart.current = new Chart(container.current)
      endTheme = onThemeChange(() => chart.current?.restyle())
      setReady(true)
    })
    return () => {
      isGone = true
      endTheme?.()
      chart.current?.close()
      chart.current = null
    }
  }, [])
  useEffect(() => {
    // Nothing until this instrument's response is there, rather than the curves of the one before.
    if (isReady) chart.current?.show(response?.points ?? [], response?.stepMs ?? 1000)
  }, [isReady, response])

  const last = response?.points.at(-1)
  const label =
    last === undefined
      ? 'No tickers in this time'
      : `Spread ${last.spreadBps ?? 'unknown'} basis points, funding rate ${last.fundingRate ?? 'not set'}`
  return (
    <Panel
      id="history"
      title="Spread and funding"
      aside={
        <fieldset class="intervals">
          <legend class="hidden">Hours</legend>
          {spans.map((span) => (
            <label key={span}>
              <input type="radio" name="hours" checked={hours === span} onChange={() => setHours(span)} />
              <span>{span < 48 ? `${span} h` : `${span / 24} d`}</span>
            </label>
          ))}
        </fieldset>
      }
    >
      <div class="chart small" ref={container} role="img" aria-label={label} />
      {error !== null && response === null && <p class="nothing">{error}</p>}
    </Panel>
  )
}
