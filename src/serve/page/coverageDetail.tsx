import { useEffect, useRef } from 'preact/hooks'
import type { MarketResponses } from '../api/marketContract.js'
import type { Question } from '../api/endpoints.js'
import { useResponse } from './loaded.js'
import { duration, moment, seriesText } from './format.js'
import { type ChangeView, readView } from './view.js'
import type { TimeRange } from '../../market/timeRange.js'
import { dayMs } from '../../market/values.js'

interface Props {
  /** `stream.category.symbol`, for candles with `.type.interval` after it. */
  readonly series: string
  readonly day: string
  readonly change: ChangeView
}

/** Shows the exact ranges of one day of a series. */
export function CoverageDetail({ series, day, change }: Props) {
  const [stream = '', category = '', ...rest] = series.split('.')
  // A symbol may contain a point, but type and interval do not.
  const [type, interval] = stream === 'candles' ? rest.slice(-2) : []
  const symbol = (stream === 'candles' ? rest.slice(0, -2) : rest).join('.')
  const from = Date.parse(`${day}T00:00:00Z`)
  // The parameters come from the address unchecked. The server reports any that are wrong.
  const question = { stream, category, symbol, type, interval, from, to: from + dayMs } as Question<'/api/coverage'>
  const { response, error } = useResponse('/api/coverage', question, { everyMs: 30_000 })
  const chart = { category, symbol, type: type ?? '', interval: interval ?? '', at: `${day}T12:00` }
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => place.current?.scrollIntoView({ block: 'nearest' }), [series, day])
  return (
    <div class="detail" ref={place} role="region" aria-label={`${symbol} on ${day}`}>
      <div class="panel-head">
        <h3>
          {symbol} <span class="dim">{seriesText(category, stream, type, interval)}</span> · {day}
        </h3>
        {type !== undefined && (
          <button onClick={() => change(readView(`?${new URLSearchParams(chart).toString()}`))}>
            Show in the chart
          </button>
        )}
        <button onClick={() => change({ series: null, day: null }, 'replace')}>Close</button>
      </div>
      {response === null ? <p class="nothing">{error ?? 'Loading…'}</p> : <Ranges response={response} from={from} />}
    </div>
  )
}

const levelOf = { open: 'warn', lost: 'bad', repaired: 'good' } as const

function Ranges({ response, from }: { response: MarketResponses['coverage']; from: number }) {
  const { covered, empty, gaps } = response
  const chartGaps = gaps.filter(({ state }) => state !== 'repaired')
  return (
    <>
      <svg class="day-line" viewBox="0 0 1000 14" preserveAspectRatio="none" aria-hidden="true">
        {covered.map((range) => (
          <Piece key={range.from} range={range} from={from} kind="complete" />
        ))}
        {empty.map((range) => (
          <Piece key={range.from} range={range} from={from} kind="empty" />
        ))}
        {chartGaps.map((gap) => (
          <Piece key={gap.from} range={gap} from={from} kind={gap.state === 'lost' ? 'lost' : 'partial'} />
        ))}
      </svg>
      <div class="ranges">
        <List title="Proven complete" ranges={covered} />
        <List title="of which no trades" ranges={empty} />
        <div>
          <h4>Gaps</h4>
          {gaps.length === 0 ? (
            <p class="nothing">none known</p>
          ) : (
            <ul>
              {gaps.map(({ from: begin, to, reason, state, detectedAt }) => (
                <li key={begin}>
                  <Span from={begin} to={to} /> <strong class={levelOf[state]}>{state}</strong>: {reason}
                  <span class="dim"> (found {moment(detectedAt)})</span>
                </li>
              ))}
            </ul>
          )}
        </div>
      </div>
    </>
  )
}

function List({ title, ranges }: { title: string; ranges: readonly TimeRange[] }) {
  return (
    <div>
      <h4>{title}</h4>
      {ranges.length === 0 ? (
        <p class="nothing">nothing</p>
      ) : (
        <ul>
          {ranges.map(({ from, to }) => (
            <li key={from}>
              <Span from={from} to={to} />
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

/** Shows a range, with its dates where it is longer than a day. */
function Span({ from, to }: TimeRange) {
  const text = (time: number) => moment(time).slice(to - from > dayMs ? 0 : 11)
  return (
    <>
      <time>{text(from)}</time> to <time>{text(to)}</time> <span class="dim">{duration(to - from)}</span>
    </>
  )
}

function Piece({ range, from, kind }: { range: TimeRange; from: number; kind: string }) {
  const x = Math.max(0, ((range.from - from) / dayMs) * 1000)
  const end = Math.min(1000, ((range.to - from) / dayMs) * 1000)
  return <rect class={kind} x={x} y={0} width={Math.max(1, end - x)} height={14} />
}
