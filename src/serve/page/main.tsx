import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Api } from './api.js'
import { Backfills } from './backfills.js'
import { Budget } from './budget.js'
import { Calendar } from './calendar.js'
import { inWords } from '../../runtime/text.js'
import type { Status } from '../api/contract.js'
import { Header, titles } from './header.js'
import { Incidents, isAway, Notices } from './problems.js'
import { Instrument } from './instrument.js'
import { eventsUrl, useLive, useResponse } from './loaded.js'
import { Market } from './market.js'
import { useWindowEvent } from './panel.js'
import { Streams } from './streams.js'
import { Tiles } from './tiles.js'
import { type ChangeView, readView, type View, writeView } from './view.js'

function App() {
  const [view, change] = useView()
  const live = useLive(eventsUrl(view))
  const { status } = live
  const now = useNow()

  // Without an instrument in the address, the tab of one leads to the busiest. A new recorder has none for a moment.
  const busiest = useResponse('/api/instruments/busiest', view.symbol === null ? {} : null, { everyMs: 3000 })
  const { category = null, symbol = null } = view.symbol === null ? (busiest.response?.instruments[0] ?? {}) : view
  useEffect(() => {
    const subject = view.shows === 'instrument' ? view.symbol : view.shows === 'status' ? null : titles[view.shows]
    document.title = subject === null ? 'market-recorder' : `${subject} · market-recorder`
  }, [view.symbol, view.shows])

  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Header live={live} now={now} view={{ ...view, category, symbol }} change={change} />
      <main id="main" class={isAway(live, now) ? 'away' : ''}>
        <Notices live={live} now={now} />
        {view.shows === 'market' && <Market view={view} change={change} now={now} />}
        {view.shows === 'coverage' && <Calendar view={view} change={change} />}
        {view.shows === 'api' && <Api />}
        {view.shows === 'instrument' && (
          <Instrument key={`${view.category} ${view.symbol}`} view={view} change={change} />
        )}
        {view.shows === 'status' && (
          <>
            <Tiles status={status} />
            <div class="columns status">
              <div class="stack">
                <Streams status={status} />
                <Incidents status={status} now={now} />
              </div>
              <div class="stack">
                <Budget status={status} />
                <Backfills status={status} />
              </div>
            </div>
          </>
        )}
      </main>
      <footer>
        <p class="running">
          {status !== null &&
            `up ${inWords(status.time - status.startedAt)} · egress ${status.egress}${others(status)} · v${status.version}`}
        </p>
        <p>
          <a href="/metrics">Metrics</a> All times are UTC. Charts by{' '}
          <a href="https://www.tradingview.com/" rel="noreferrer">
            TradingView Lightweight Charts™
          </a>
        </p>
      </footer>
    </>
  )
}

/** Number of recorders that share the work, as text. Empty for a single recorder. */
function others({ fleet: { recorders } }: Status): string {
  if (recorders.length < 2) return ''
  const present = recorders.filter(({ state }) => state === 'recording').length
  return present === recorders.length
    ? `, one of ${present} recorders`
    : `, ${present} of ${recorders.length} recorders active`
}

/** Returns this machine's time, updated once a second. */
function useNow(): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [])
  return now
}

function useView(): [View, ChangeView] {
  const [view, setView] = useState(() => readView(location.search))
  useWindowEvent('popstate', () => setView(readView(location.search)))
  const change: ChangeView = (part, how = 'push') => {
    // Reads the view from the address, not from the last render. Otherwise two quick changes would undo each other.
    const next = { ...readView(location.search), ...part }
    const url = writeView(next)
    if (how === 'push') history.pushState(null, '', url)
    else history.replaceState(null, '', url)
    setView(next)
  }
  return [view, change]
}

const root = document.getElementById('app')
if (root !== null) {
  root.replaceChildren()
  render(<App />, root)
}
