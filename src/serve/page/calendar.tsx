import './calendar.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import { grouped } from '../../runtime/text.js'
import type { Question } from '../api/endpoints.js'
import type { MarketResponses } from '../api/marketContract.js'
import { ask, useResponse } from './loaded.js'
import { CoverageDetail } from './coverageDetail.js'
import { day as dayText, seriesText } from './format.js'
import { Choice, Legend, Panel, useWindowEvent } from './panel.js'
import type { ViewProps } from './view.js'
import { streamNames, streamTraits } from '../../market/stream.js'
import { dayMs } from '../../market/values.js'

type Series = MarketResponses['calendar']['series'][number]

const meanings = {
  complete: 'complete',
  partial: 'partly recorded',
  missing: 'a gap all day',
  lost: 'has a lost gap',
  empty: 'no trade',
  none: 'nothing recorded',
} as const

/** Shows the coverage of each series by day. Each day opens a view of its exact ranges. */
export function Calendar({ view, change }: ViewProps) {
  const [page, setPage] = useState(0)
  /** A moment on the last day that is shown; undefined for today. */
  const [end, setEnd] = useState<number | undefined>()
  const [days, setDays] = useState(daysThatFit)
  const [pageSize, setPageSize] = useState(rowsThatFit)
  useWindowEvent('resize', () => {
    setDays(daysThatFit())
    setPageSize(rowsThatFit())
  })
  // The whole symbol of the chosen instrument means that one alone, and not those whose symbols begin with it.
  const isExact = view.coverage === view.symbol
  const named = isExact ? { symbol: view.coverage } : { search: view.coverage }
  const stream = view.stream ?? undefined
  const question = { ...named, stream, days, to: end, limit: pageSize, offset: page * pageSize }
  const csv = { name: 'coverage', rows: () => allRows(question) }
  const { response, error } = useResponse('/api/calendar', question, { everyMs: 30_000, keepsPrevious: true })
  useEffect(() => setPage(0), [view.coverage, stream])
  const total = response?.total ?? 0
  const pages = Math.max(1, Math.ceil(total / pageSize))

  return (
    <Panel
      id="coverage"
      title="Coverage by day"
      csv={response === null ? undefined : csv}
      aside={
        <div class="choices">
          <Choice
            name="All streams"
            values={provenStreams}
            chosen={view.stream}
            choose={(to) => change({ stream: to }, 'replace')}
          />
          <input
            type="search"
            placeholder="Filter by symbol"
            aria-label="Filter the calendar by symbol"
            value={view.coverage}
            onInput={(event) => change({ coverage: event.currentTarget.value }, 'replace')}
          />
          {view.symbol !== null && view.coverage !== view.symbol && (
            <button onClick={() => change({ coverage: view.symbol ?? '' }, 'replace')}>Only {view.symbol}</button>
          )}
          <p class="aside">{grouped(total)} series</p>
        </div>
      }
    >
      {response === null || response.series.length === 0 ? (
        <p class="nothing">
          {error ?? (response === null ? 'Loading…' : 'No series of this name is recorded or fetched.')}
        </p>
      ) : (
        <Grid response={response} view={view} change={change} />
      )}
      <div class="panel-foot">
        <Legend
          keys={Object.fromEntries(Object.entries(meanings).map(([name, meaning]) => [`day ${name}`, meaning]))}
        />
        {response !== null && <Days response={response} days={days} end={end} setEnd={setEnd} />}
        {pages > 1 && <Pages page={page} pages={pages} setPage={setPage} />}
      </div>
      {view.series !== null && view.day !== null && (
        <CoverageDetail series={view.series} day={view.day} change={change} />
      )}
    </Panel>
  )
}

interface DaysProps {
  readonly response: MarketResponses['calendar']
  readonly days: number
  readonly end: number | undefined
  readonly setEnd: (end: number | undefined) => void
}

/** Buttons that lead to earlier and later days. */
function Days({ response, days, end, setEnd }: DaysProps) {
  const toLater = () => {
    const next = response.to + days * dayMs - 1
    setEnd(next < Date.now() ? next : undefined)
  }
  return (
    <div class="chart-buttons">
      <button onClick={() => setEnd(response.from - 1)}>Earlier days</button>
      <button disabled={end === undefined} onClick={toLater}>
        Later days
      </button>
    </div>
  )
}

/** Buttons that lead to other pages of series. */
function Pages({ page, pages, setPage }: { page: number; pages: number; setPage: (page: number) => void }) {
  return (
    <div class="chart-buttons">
      <button disabled={page === 0} onClick={() => setPage(page - 1)} aria-label="Previous series">
        ←
      </button>
      <span class="dim">
        {page + 1} / {pages}
      </span>
      <button disabled={page + 1 >= pages} onClick={() => setPage(page + 1)} aria-label="More series">
        →
      </button>
    </div>
  )
}

function Grid({ response, view, change }: ViewProps & { response: MarketResponses['calendar'] }) {
  const dates = datesOf(response)
  const table = useRef<HTMLTableElement>(null)
  // The tab key reaches one day of the calendar. From there, the arrow keys lead to the others.
  const [cursor, setCursor] = useState<readonly [row: number, column: number]>([0, dates.length - 1])
  const row = Math.min(cursor[0], response.series.length - 1)
  const column = Math.min(cursor[1], dates.length - 1)
  const move = (event: KeyboardEvent) => {
    const step = steps[event.key]
    if (step === undefined) return
    event.preventDefault()
    const next = [clamp(row + step[0], response.series.length), clamp(column + step[1], dates.length)] as const
    setCursor(next)
    table.current?.querySelector<HTMLElement>(`[data-cell="${next[0]}-${next[1]}"]`)?.focus()
  }
  return (
    <div class="scroll">
      <table class="calendar" ref={table} onKeyDown={move}>
        <caption class="hidden">
          Series by day, {dates[0] === undefined ? '' : dayText(dates[0])} to {dayText(response.to - dayMs)}. Arrow keys
          move, Enter opens a day.
        </caption>
        <thead>
          <tr>
            <th scope="col">Series</th>
            {dates.map((date, index) => (
              <th key={date} scope="col" class="date">
                <span class="hidden">{dayText(date)}</span>
                <span aria-hidden="true">{dateMark(date, index)}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {response.series.map((series, seriesIndex) => {
            const id = seriesId(series)
            return (
              <tr key={id}>
                <th scope="row">
                  <button
                    class="link"
                    onClick={() =>
                      change({ shows: 'instrument', category: series.category, symbol: series.symbol, at: null })
                    }
                    title="Show this instrument"
                  >
                    {series.symbol}
                  </button>{' '}
                  <span class="dim">{seriesText(series.category, series.stream, series.type, series.interval)}</span>
                </th>
                {series.days.map((status, index) => {
                  const date = dayText(dates[index] ?? 0)
                  const isOpen = view.series === id && view.day === date
                  return (
                    <td key={date}>
                      <button
                        class={`day ${status}`}
                        data-cell={`${seriesIndex}-${index}`}
                        tabIndex={seriesIndex === row && index === column ? 0 : -1}
                        aria-label={`${series.symbol} ${date}: ${meanings[status]}`}
                        aria-pressed={isOpen}
                        title={`${date}: ${meanings[status]}`}
                        onFocus={() => setCursor([seriesIndex, index])}
                        onClick={() =>
                          change(isOpen ? { series: null, day: null } : { series: id, day: date }, 'replace')
                        }
                      />
                    </td>
                  )
                })}
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

const steps: Readonly<Record<string, readonly [number, number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  Home: [0, -1000],
  End: [0, 1000],
}

function clamp(value: number, length: number): number {
  return Math.max(0, Math.min(length - 1, value))
}

const provenStreams = streamNames.filter((name) => 'isProven' in streamTraits[name])
const csvColumns = ['stream', 'category', 'symbol', 'type', 'interval']

const seriesPerRequest = 100

/** Requests all series that match, because the page shows only those that fit into the window. */
async function allRows(question: Question<'/api/calendar'>) {
  const first = await ask('/api/calendar', { ...question, limit: seriesPerRequest, offset: 0 })
  const series = [...first.series]
  for (let offset = seriesPerRequest; offset < first.total; offset += seriesPerRequest) {
    const next = await ask('/api/calendar', { ...question, to: first.to - 1, limit: seriesPerRequest, offset })
    series.push(...next.series)
  }
  return [[...csvColumns, ...datesOf(first).map(dayText)], ...series.map(csvRow)]
}

function csvRow({ stream, category, symbol, type, interval, days }: Series) {
  return [stream, category, symbol, type, interval, ...days]
}

function datesOf({ from, to }: MarketResponses['calendar']): number[] {
  return Array.from({ length: (to - from) / dayMs }, (_, index) => from + index * dayMs)
}

/** Returns the number of days that fit into the window beside the names, whose width the style sheet has, too. */
function daysThatFit(): number {
  const [around, label, cell] = innerWidth > 620 ? [64, 322, 18] : [46, 142, 19]
  const room = Math.min(innerWidth, 1720) - around - label
  return Math.max(7, Math.min(92, Math.floor(room / cell)))
}

/** Returns the number of series that fit into the window below the header and the panel's head. */
function rowsThatFit(): number {
  return Math.max(12, Math.min(100, Math.floor((innerHeight - 215) / (innerWidth > 620 ? 20 : 30))))
}

/** Returns the month at its first day, and the day of the month in the first column and on Mondays. */
function dateMark(date: number, index: number): string {
  const at = new Date(date)
  if (at.getUTCDate() === 1) return at.toLocaleDateString('en-GB', { month: 'short', timeZone: 'UTC' })
  // The name of a month leaves no room for a number right after it, and would seem to belong to one right before it.
  const isByMonth = at.getUTCDate() <= 3 || new Date(date + 2 * dayMs).getUTCDate() <= 2
  // Nor would the first column have room right before a Monday.
  const isFirst = index === 0 && at.getUTCDay() !== 0
  return (isFirst || at.getUTCDay() === 1) && !isByMonth ? String(at.getUTCDate()) : ''
}

function seriesId({ stream, category, symbol, type, interval }: Series): string {
  return [stream, category, symbol, ...(type === null ? [] : [type, interval])].join('.')
}
