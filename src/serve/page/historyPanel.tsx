import { useEffect, useState } from 'preact/hooks'
import type { MarketResponses } from '../api/marketContract.js'
import type { Category } from '../../market/category.js'
import { hourMs } from '../../market/values.js'
import { useResponse } from './loaded.js'
import { useDrawing } from './chart/drawing.js'
import type { Line } from './chart/lineChart.js'
import { approximate, duration } from './format.js'
import { Legend, Panel, Radios } from './panel.js'

const spans = [1, 6, 24, 168]

type History = MarketResponses['history']
type Field = Exclude<keyof History['points'][number], 'time'>

/** Spread of the last hours and, where there is one, the funding rate. */
export function HistoryPanel({ category, symbol }: { category: Category; symbol: string }) {
  const [hours, setHours] = useState(6)
  const { response, error } = useResponse('/api/history', { category, symbol, hours }, { everyMs: 15_000 })
  const last = response?.points.at(-1)
  const span = <Radios name="Hours" values={spans} chosen={hours} choose={setHours} shown={spanText} />
  const step = response === null ? '' : `, each ${duration(response.stepMs)}`
  return (
    <>
      <Panel id="history" title="Spread, basis points" aside={span}>
        <Lines
          history={response}
          hours={hours}
          digits={2}
          label={last === undefined ? 'No tickers in this time' : `Spread ${last.spreadBps ?? 'unknown'} basis points`}
          lines={[
            { colour: 'accent-soft', width: 1, values: valuesOf(response, 'maxSpreadBps', 1) },
            { colour: 'accent', width: 2, values: valuesOf(response, 'spreadBps', 1) },
          ]}
        />
        <Legend keys={{ mean: `mean${step}`, widest: 'widest in it' }} />
        {last === undefined && <p class="nothing">{error ?? (response === null ? 'Loading…' : 'No ticker in it.')}</p>}
      </Panel>
      {response?.points.some(({ fundingRate }) => fundingRate !== null) === true && (
        <Panel id="funding" title={`Funding rate, %, last ${spanText(hours)}`}>
          <Lines
            history={response}
            hours={hours}
            digits={4}
            label={`Funding rate ${last?.fundingRate ?? 'not set'}`}
            lines={[{ colour: 'warn', width: 2, isStepped: true, values: valuesOf(response, 'fundingRate', 100) }]}
          />
          <Legend keys={{ funding: 'rate of the newest ticker, for one funding interval' }} />
        </Panel>
      )}
    </>
  )
}

interface LinesProps {
  readonly history: History | null
  readonly hours: number
  readonly digits: number
  readonly label: string
  readonly lines: readonly Line[]
}

function Lines({ history, hours, digits, label, lines }: LinesProps) {
  const { container, drawing, isReady } = useDrawing(async () => {
    const { LineChart } = await import('./chart/lineChart.js')
    return (place) => new LineChart(place, digits)
  })
  useEffect(() => {
    if (!isReady) return
    const to = Math.max(Date.now(), history?.points.at(-1)?.time ?? 0)
    // Nothing until this instrument's response is there, rather than the curves of the one before.
    drawing.current?.show(lines, { from: to - hours * hourMs, to }, history?.stepMs ?? hourMs)
  }, [isReady, history])
  return <div class="chart small" ref={container} role="img" aria-label={label} />
}

function valuesOf(history: History | null, field: Field, factor: number): ReadonlyMap<number, number> {
  return new Map(
    (history?.points ?? []).flatMap((point) => {
      const value = point[field]
      return value === null ? [] : [[point.time, approximate(value) * factor] as const]
    }),
  )
}

function spanText(hours: number): string {
  return hours < 48 ? `${hours} h` : `${hours / 24} d`
}
