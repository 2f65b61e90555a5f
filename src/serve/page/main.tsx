import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Api } from './api.js'
import { Backfills } from './backfills.js'
import { Budget } from './budget.js'
import { Calendar } from './calendar.js'
import { Header, restoreTheme } from './header.js'
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

  // Without an instrument in the address, the page shows the busiest one. A new recorder has none for a moment.
  const busiest = useResponse('/api/instruments/busiest', view.symbol === null ? {} : null, { everyMs: 3000 })
  useEffect(() => {
    const first = busiest.response?.instruments[0]
    if (view.symbol === null && first) change({ category: first.category, symbol: first.symbol }, 'replace')
  }, [busiest.response, view.symbol])
  useEffect(() => {
    document.title = view.symbol === null ? 'market-recorder' : `${view.symbol} · market-recorder`
  }, [view.symbol])

  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Header live={live} now={now} view={view} change={change} />
      <main id="main" class={isAway(live, now) ? 'away' : ''}>
        <Notices live={live} now={now} />
        {view.shows === 'market' && <Market change={change} now={now} />}
        {view.shows === 'api' && <Api />}
        {view.shows === 'instrument' && (
          <>
            <Tiles status={status} />
            <div class="columns">
              <Streams status={status} />
              <Budget status={status} />
            </div>
            <Instrument view={view} change={change} />
            <div class="columns">
              <Calendar view={view} change={change} />
              <div class="stack">
                <Backfills status={status} />
                <Incidents status={status} now={now} />
              </div>
            </div>
          </>
        )}
      </main>
      <footer>
        <p>
          <a href="/?api">API</a> <a href="/metrics">Metrics</a> All times are UTC.
        </p>
        <p>
          Charts by{' '}
          <a href="https://www.tradingview.com/" rel="noreferrer">
            TradingView Lightweight Charts™
          </a>
        </p>
      </footer>
    </>
  )
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

restoreTheme()
const root = document.getElementById('app')
if (root !== null) {
  root.replaceChildren()
  render(<App />, root)
}
