import { useEffect, useState } from 'preact/hooks'
import type { Category } from '../../market/category.js'
import { useResponse } from './loaded.js'
import { useDrawing } from './chart/drawing.js'
import { Panel, Radios } from './panel.js'

const spans = [1, 6, 24, 168]

/** Spread and funding rate of the last hours. */
export function HistoryPanel({ category, symbol }: { category: Category; symbol: string }) {
  const [hours, setHours] = useState(6)
  const { response, error } = useResponse('/api/history', { category, symbol, hours }, { everyMs: 15_000 })
  const { container, drawing, isReady } = useDrawing(async () => {
    const { HistoryChart } = await import('./chart/historyChart.js')
    return (place) => new HistoryChart(place)
  })
  useEffect(() => {
    // Nothing until this instrument's response is there, rather than the curves of the one before.
    if (isReady) drawing.current?.show(response?.points ?? [], response?.stepMs ?? 1000)
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
        <Radios
          name="Hours"
          values={spans}
          chosen={hours}
          choose={setHours}
          shown={(span) => (span < 48 ? `${span} h` : `${span / 24} d`)}
        />
      }
    >
      <div class="chart small" ref={container} role="img" aria-label={label} />
      {error !== null && response === null && <p class="nothing">{error}</p>}
    </Panel>
  )
}
