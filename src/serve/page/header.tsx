import './header.css'
import { useState } from 'preact/hooks'
import type { Status } from '../api/contract.js'
import { clockTime, day, uptime } from './format.js'
import type { Live } from './live.js'
import { Search } from './search.js'
import type { ChangeView, View } from './view.js'

const nextTheme: Readonly<Record<Theme, Theme>> = { auto: 'light', light: 'dark', dark: 'auto' }

interface HeaderProps {
  readonly live: Live
  readonly now: number
  readonly view: View
  readonly change: ChangeView
}

export function Header({ live, now, view, change }: HeaderProps) {
  const [theme, setTheme] = useState(storedTheme)
  const { status } = live
  const health = healthOf(live)
  const switchTheme = () => {
    const next = nextTheme[theme]
    applyTheme(next)
    setTheme(next)
  }
  return (
    <header>
      <h1>market-recorder</h1>
      <p class={`health ${health.level}`} role="status">
        <span class="dot" aria-hidden="true" />
        {health.text}
      </p>
      <p class="running">
        {status !== null &&
          `up ${uptime(status.time - status.startedAt)} · egress ${status.egress}${others(status)} · v${status.version}`}
      </p>
      <button
        type="button"
        class="to-market"
        aria-pressed={view.shows === 'market'}
        onClick={() => change({ shows: view.shows === 'market' ? 'instrument' : 'market' })}
      >
        Market
      </button>
      <Search change={change} />
      <p class="clock">
        <span class="dim">{day(now)}</span> <time>{clockTime(now)}</time> <span class="dim">UTC</span>
      </p>
      <button type="button" class="theme" onClick={switchTheme} aria-label={`Colours: ${theme}. Change.`}>
        {theme === 'auto' ? '◐' : theme === 'light' ? '○' : '●'} <span>{theme}</span>
      </button>
    </header>
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

interface Health {
  readonly level: 'good' | 'warn' | 'bad' | 'unknown'
  readonly text: string
}

function healthOf({ status, isConnected }: Live): Health {
  if (!isConnected) return { level: 'bad', text: 'No connection' }
  if (status === null) return { level: 'unknown', text: 'Connecting' }
  return recorderHealth(status)
}

function recorderHealth({ phase, problems }: Status): Health {
  if (phase === 'waiting') return { level: 'warn', text: 'Standing by' }
  if (phase === 'starting') return { level: 'warn', text: 'Starting' }
  if (phase === 'stopping') return { level: 'warn', text: 'Stopping' }
  if (problems.length === 0) return { level: 'good', text: 'Recording' }
  const level = problems.some(({ isBlocking }) => isBlocking) ? 'bad' : 'warn'
  return { level, text: problems.length === 1 ? '1 problem' : `${problems.length} problems` }
}

type Theme = 'auto' | 'light' | 'dark'

const themeKey = 'market-recorder.theme'

export function storedTheme(): Theme {
  const stored = localStorage.getItem(themeKey)
  return stored === 'light' || stored === 'dark' ? stored : 'auto'
}

export function applyTheme(theme: Theme): void {
  if (theme === 'auto') {
    localStorage.removeItem(themeKey)
    delete document.documentElement.dataset.theme
  } else {
    localStorage.setItem(themeKey, theme)
    document.documentElement.dataset.theme = theme
  }
  dispatchEvent(new Event('themechange'))
}
